// SPDX-License-Identifier: Apache-2.0
// Sources of the public form include it; what they use stands in orchestration_api.h and tensor.h.
//
// Thread safety: nothing to share.
#pragma once
