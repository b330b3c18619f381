// SPDX-License-Identifier: Apache-2.0
// CoreTaskArgsWithDeps, which orchestration_api.h defines.
//
// Thread safety: that of orchestration_api.h.
#pragma once
#include "orchestration_api.h"
