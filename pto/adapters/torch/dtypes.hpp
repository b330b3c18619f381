// SPDX-License-Identifier: Apache-2.0
// Converts element types between PyTorch's numbers and ours.
//
//     int32_t theirs = their_dtype(DType::F32);      // our_dtype(theirs) is DType::F32
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "pto/base/dtype.hpp"

namespace pto::torch_adapter {

int our_dtype(int32_t theirs);  // a DType, or -1: no kernels for it
int32_t their_dtype(DType ours);

}  // namespace pto::torch_adapter
