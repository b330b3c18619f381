// SPDX-License-Identifier: Apache-2.0
// weight_owner() tells who owns a tensor's memory, and how often PyTorch saw it written; false for
// a tensor without storage. PyTorch's stable interface has neither storages nor version counters,
// so this is built for one PyTorch.
//
//     pto_weight_owner owner;
//     const bool is_known = pto::torch_adapter::weight_owner(tensor, &owner);
//
// Thread safety: any thread.
#pragma once
#include <ATen/core/Tensor.h>

#include "pto/abi/weights.h"

namespace pto::torch_adapter {

inline bool weight_owner(const at::Tensor& tensor, pto_weight_owner* owner) {
  namespace weak = c10::raw::weak_intrusive_ptr;
  using Target = c10::intrusive_ptr_target;
  c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  if (!one.has_storage()) return false;
  Target* const storage = one.unsafe_storage().unsafeGetStorageImpl();
  // Inference tensors count no writes.
  const uint64_t version =
      one.is_inference() ? PTO_WEIGHT_UNCOUNTED : one.version_counter().current_version();
  *owner = {
      storage, version, [](void* object) { weak::incref(static_cast<Target*>(object)); },
      [](void* object) { weak::decref(static_cast<Target*>(object)); },
      [](void* object) -> int32_t { return weak::use_count(static_cast<Target*>(object)) > 0; }};
  return true;
}

}  // namespace pto::torch_adapter
