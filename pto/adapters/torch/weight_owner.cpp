// SPDX-License-Identifier: Apache-2.0
// For operators: tells packed weights (operators/weights.hpp) who owns their tensors, and lets
// PyTorch resize their results.
// Thread safety: any thread.
#include "pto/adapters/torch/weight_owner.hpp"

#include "pto/adapters/torch/resizable.hpp"

extern "C" const void* pto_torch_weight_owner_address() {
  int32_t (*const owner_of)(const at::Tensor*, pto_weight_owner*) =
      [](const at::Tensor* tensor, pto_weight_owner* owner) -> int32_t {
    return pto::torch_adapter::weight_owner(*tensor, owner);
  };
  return reinterpret_cast<const void*>(owner_of);
}

extern "C" const void* pto_torch_let_resize_address() {
  void (*const let)(const at::Tensor*) = [](const at::Tensor* tensor) {
    pto::torch_adapter::let_resize(*tensor);
  };
  return reinterpret_cast<const void*>(let);
}
