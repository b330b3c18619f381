// SPDX-License-Identifier: Apache-2.0
// let_resize() lets PyTorch give a tensor over our memory other memory, as it does with its own:
// out=, resize_() and untyped_storage().resize_() do. A tensor over foreign memory refuses that.
//
//     at::Tensor y = at::from_blob(memory, sizes, give_back, options);
//     pto::torch_adapter::let_resize(y);   // y.resize_(n) gives `memory` back
//
// Thread safety: the tensor belongs to the calling thread.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>

namespace pto::torch_adapter {

inline void let_resize(const at::Tensor& tensor) {
  c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  storage.set_allocator(c10::GetCPUAllocator());
  storage.set_resizable(true);
}

}  // namespace pto::torch_adapter
