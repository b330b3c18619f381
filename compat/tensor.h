// SPDX-License-Identifier: Apache-2.0
// Tensor: the header of kernels of the public form whose slots hold descriptors of tensors.
//
//     #include "tensor.h"
//     extern "C" __aicore__ void kernel_entry(__gm__ int64_t* args) {
//       __gm__ Tensor* x = reinterpret_cast<__gm__ Tensor*>(args[0]);
//       __gm__ float* data = reinterpret_cast<__gm__ float*>(x->buffer.addr) + x->start_offset;
//       float scale = from_u64<float>(args[1]);
//     }
//
// Such a kernel gets the scalars of orchestration_api.h as their own bits, a float as its 32. The
// scalars of an orchestration of pto/runtime.h reach it as everywhere, a float as a double.
//
// Thread safety: each call has descriptors of its own.
#pragma once

#include <new>

#include <pto/common/builtin_names.hpp>

#include "orchestration_tensor.h"

namespace pto {
namespace compat {

// Runs one block of such a kernel; the body of a pto_kernel.
inline int32_t enter_tensor_slots(pto_slot_kernel kernel, const pto_args* args) {
  const size_t tensors = size_t(args->n_tensors), scalars = size_t(args->n_scalars);
  void* const memory = args->services->scratch(
      args->services, tensors * sizeof(ChipTensor) + (tensors + scalars + 1) * sizeof(int64_t));
  if (memory == nullptr)
    return args->services->fail(args->services, "kernel_entry: no memory for its arguments");
  auto* const descriptors = static_cast<ChipTensor*>(memory);
  auto* const slots = reinterpret_cast<int64_t*>(descriptors + tensors);
  for (size_t i = 0; i < tensors; ++i) {
    const pto_tensor& tensor = args->tensors[i];
    pto_view view{};
    view.data = tensor.data;
    view.rank = tensor.rank;
    view.type_code = tensor.type_code;
    view.type_bits = tensor.type_bits;
    for (int32_t k = 0; k < tensor.rank; ++k) {
      view.sizes[k] = tensor.sizes[k];
      view.strides[k] = tensor.strides[k];
    }
    const DataType type = data_type_of({tensor.type_code, tensor.type_bits}, int(i));
    slots[i] = reinterpret_cast<int64_t>(new (descriptors + i)
                                             ChipTensor(view, type, TaskId::invalid(), 0));
  }
  for (size_t i = 0; i < scalars; ++i) slots[tensors + i] = int64_t(args->scalars[i]);
  kernel(slots);
  return 0;
}

}  // namespace compat
}  // namespace pto
