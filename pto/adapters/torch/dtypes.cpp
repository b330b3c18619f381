// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/dtypes.hpp"

#include "pto/adapters/torch/shim.hpp"

namespace pto::torch_adapter {
namespace {

// PyTorch's numbers of the element types, asked for once.
const FrameworkTypes kTypes(aoti_torch_dtype_bool(), aoti_torch_dtype_int8(),
                            aoti_torch_dtype_int16(), aoti_torch_dtype_int32(),
                            aoti_torch_dtype_int64(), aoti_torch_dtype_uint8(),
                            aoti_torch_dtype_uint16(), aoti_torch_dtype_uint32(),
                            aoti_torch_dtype_uint64(), aoti_torch_dtype_float16(),
                            aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float32(),
                            aoti_torch_dtype_float64());

}  // namespace

int our_dtype(int32_t theirs) { return kTypes.ours(theirs); }

int32_t their_dtype(DType ours) { return kTypes.theirs(static_cast<int32_t>(ours)); }

}  // namespace pto::torch_adapter
