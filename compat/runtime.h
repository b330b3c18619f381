// SPDX-License-Identifier: Apache-2.0
// Sources of the public form include it; orchestration_api.h and tensor.h hold the names they use.
//
// Thread safety: nothing to share.
#pragma once
