// SPDX-License-Identifier: Apache-2.0
// CoreTaskArgsWithDeps, which orchestration_api.h has.
//
// Thread safety: as there.
#pragma once
#include "orchestration_api.h"
