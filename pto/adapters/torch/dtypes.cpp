// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/dtypes.hpp"

#include <array>

#include "pto/adapters/torch/shim.hpp"

namespace pto::torch_adapter {
namespace {

// PyTorch's numbers of the element types, asked for once.
struct Table {
  std::array<int8_t, 64> ours;
  std::array<int32_t, kDTypes> theirs;

  Table() {
    theirs = {aoti_torch_dtype_bool(),    aoti_torch_dtype_int8(),     aoti_torch_dtype_int16(),
              aoti_torch_dtype_int32(),   aoti_torch_dtype_int64(),    aoti_torch_dtype_uint8(),
              aoti_torch_dtype_uint16(),  aoti_torch_dtype_uint32(),   aoti_torch_dtype_uint64(),
              aoti_torch_dtype_float16(), aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float32(),
              aoti_torch_dtype_float64()};
    ours.fill(-1);
    for (size_t i = 0; i < theirs.size(); ++i) {
      ours.at(static_cast<size_t>(theirs[i])) = static_cast<int8_t>(i);
    }
  }
};
const Table kTable;

}  // namespace

int our_dtype(int32_t theirs) {
  return theirs >= 0 && theirs < 64 ? kTable.ours[static_cast<size_t>(theirs)] : -1;
}

int32_t their_dtype(DType ours) { return kTable.theirs[static_cast<size_t>(ours)]; }

}  // namespace pto::torch_adapter
