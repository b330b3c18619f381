// SPDX-License-Identifier: Apache-2.0
// A tensor of int64 for the tests of tasks; sizes and strides count elements and are not copied.
//
//     pto_tensor rows = int64_tensor(values.data(), {2, sizes}, {2, strides});
//
// Thread safety: pure function.
#pragma once
#include <cstdint>
#include <span>

#include "pto/abi/host.h"

namespace pto {

inline pto_tensor int64_tensor(int64_t* data, std::span<const int64_t> sizes,
                               std::span<const int64_t> strides) {
  return {data, sizes.data(), strides.data(), int32_t(sizes.size()), 0, 64, 1, 0, -1};
}

}  // namespace pto
