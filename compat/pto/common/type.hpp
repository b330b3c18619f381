// SPDX-License-Identifier: Apache-2.0
// Element types and modes, by the public library's path, and its word for static_assert.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/common/debug.h>
