// SPDX-License-Identifier: Apache-2.0
// Tells packed weights (operators/weights.hpp) who owns a tensor's memory, and how often PyTorch
// saw it written: a storage and a version counter are no part of PyTorch's stable interface.
// Thread safety: any thread.
#include <ATen/core/Tensor.h>

#include "pto/abi/weights.h"

namespace {

namespace weak = c10::raw::weak_intrusive_ptr;

c10::intrusive_ptr_target* target(void* object) {
  return static_cast<c10::intrusive_ptr_target*>(object);
}
void hold(void* object) { weak::incref(target(object)); }
void release(void* object) { weak::decref(target(object)); }
int32_t is_alive(void* object) { return weak::use_count(target(object)) > 0; }

int32_t owner_of(const at::Tensor* tensor, pto_weight_owner* owner) {
  c10::TensorImpl& one = *tensor->unsafeGetTensorImpl();
  if (!one.has_storage()) return 0;
  c10::intrusive_ptr_target* const storage = one.unsafe_storage().unsafeGetStorageImpl();
  // Inference tensors count no writes.
  const uint64_t version =
      one.is_inference() ? PTO_WEIGHT_UNCOUNTED : one.version_counter().current_version();
  *owner = {storage, version, &hold, &release, &is_alive};
  return 1;
}

}  // namespace

extern "C" const void* pto_torch_weight_owner_address() {
  return reinterpret_cast<const void*>(&owner_of);
}
