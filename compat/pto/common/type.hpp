// SPDX-License-Identifier: Apache-2.0
// Element types and modes, by the public library's path, and its word for static_assert.
//
// Thread safety: nothing to share.
#pragma once
#include <pto/pto-inst.hpp>

#define PTO_STATIC_ASSERT(...) static_assert(__VA_ARGS__)
