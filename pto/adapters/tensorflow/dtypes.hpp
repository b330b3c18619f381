// SPDX-License-Identifier: Apache-2.0
// DTypes: TensorFlow's element types and ours.
//
// Thread safety: pure functions.
#pragma once

#include <array>

#include "pto/base/dtype.hpp"
#include "tensorflow/core/framework/types.h"

namespace pto::tensorflow_adapter {

inline constexpr std::array<tensorflow::DataType, kDTypes> kTheirs = {
    // in the order of DType
    tensorflow::DT_BOOL,   tensorflow::DT_INT8,  tensorflow::DT_INT16,    tensorflow::DT_INT32,
    tensorflow::DT_INT64,  tensorflow::DT_UINT8, tensorflow::DT_UINT16,   tensorflow::DT_UINT32,
    tensorflow::DT_UINT64, tensorflow::DT_HALF,  tensorflow::DT_BFLOAT16, tensorflow::DT_FLOAT,
    tensorflow::DT_DOUBLE,
};

// A pto::DType, or -1 where we have no such type.
inline int32_t ours(tensorflow::DataType theirs) {
  for (size_t i = 0; i < kTheirs.size(); ++i) {
    if (kTheirs[i] == theirs) return static_cast<int32_t>(i);
  }
  return -1;
}

inline tensorflow::DataType theirs(int32_t dtype) { return kTheirs.at(static_cast<size_t>(dtype)); }

}  // namespace pto::tensorflow_adapter
