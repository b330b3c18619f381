// SPDX-License-Identifier: Apache-2.0
// PTO_ASSERT of the public library, which checks with _DEBUG, else nothing, and PTO_STATIC_ASSERT.
//
//     PTO_ASSERT(rows > 0, "there is a row");
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>

#include <cassert>

#if defined(_DEBUG)
#define PTO_ASSERT(condition, message) assert((condition) && (message))
#else
#define PTO_ASSERT(condition, message) ((void)0)
#endif
#define PTO_STATIC_ASSERT(...) static_assert(__VA_ARGS__)
