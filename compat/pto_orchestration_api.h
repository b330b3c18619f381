// SPDX-License-Identifier: Apache-2.0
// The older name of orchestration_api.h.
#pragma once
#include "orchestration_api.h"
