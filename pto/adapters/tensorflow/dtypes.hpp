// SPDX-License-Identifier: Apache-2.0
// DTypes: maps TensorFlow's element types to ours and back.
//
//     ours(tensorflow::DT_FLOAT) == int32_t(DType::F32);
//
// Thread safety: pure functions.
#pragma once

#include "pto/base/dtype.hpp"
#include "tensorflow/core/framework/types.h"

namespace pto::tensorflow_adapter {

inline constexpr FrameworkTypes kTypes(tensorflow::DT_BOOL, tensorflow::DT_INT8,
                                       tensorflow::DT_INT16, tensorflow::DT_INT32,
                                       tensorflow::DT_INT64, tensorflow::DT_UINT8,
                                       tensorflow::DT_UINT16, tensorflow::DT_UINT32,
                                       tensorflow::DT_UINT64, tensorflow::DT_HALF,
                                       tensorflow::DT_BFLOAT16, tensorflow::DT_FLOAT,
                                       tensorflow::DT_DOUBLE);

// Returns a pto::DType, or -1 if we have no such type.
inline int32_t ours(tensorflow::DataType theirs) { return kTypes.ours(theirs); }
inline tensorflow::DataType theirs(int32_t dtype) {
  return static_cast<tensorflow::DataType>(kTypes.theirs(dtype));
}

}  // namespace pto::tensorflow_adapter
