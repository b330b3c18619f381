// SPDX-License-Identifier: Apache-2.0
// Tells packed weights (operators/weights.hpp) who owns the tensors of operators.
// Thread safety: any thread.
#include "pto/adapters/torch/weight_owner.hpp"

extern "C" const void* pto_torch_weight_owner_address() {
  int32_t (*const owner_of)(const at::Tensor*, pto_weight_owner*) =
      [](const at::Tensor* tensor, pto_weight_owner* owner) -> int32_t {
    return pto::torch_adapter::weight_owner(*tensor, owner);
  };
  return reinterpret_cast<const void*>(owner_of);
}
