// SPDX-License-Identifier: Apache-2.0
// DTypes: maps TensorFlow's element types to ours and back.
//
//     ours(tensorflow::DT_FLOAT) == int32_t(DType::F32);
//
// Invariant: kTheirs follows the order of DType.
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

inline constexpr auto kOurs = [] {
  std::array<int8_t, 32> table{};
  for (auto& entry : table) entry = -1;
  for (size_t i = 0; i < kTheirs.size(); ++i) table[kTheirs[i]] = static_cast<int8_t>(i);
  return table;
}();

// Returns a pto::DType, or -1 if we have no such type.
inline int32_t ours(tensorflow::DataType theirs) {
  const auto place = static_cast<size_t>(theirs);
  return place < kOurs.size() ? kOurs[place] : -1;
}

inline tensorflow::DataType theirs(int32_t dtype) { return kTheirs.at(static_cast<size_t>(dtype)); }

}  // namespace pto::tensorflow_adapter
