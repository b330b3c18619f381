// SPDX-License-Identifier: Apache-2.0
// is_plain_tensor() says whether PyTorch would do nothing for a tensor but run the kernel: it lies
// in the processor's memory, no gradient is asked of it, and it has no tangent.
// Thread safety: pure function.
#pragma once

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "pto/adapters/torch/plain_keys.hpp"

namespace pto::torch_adapter {

inline bool is_plain_tensor(const at::Tensor& tensor) {
  if (!has_plain_keys(tensor)) return false;
  c10::TensorImpl& one = *tensor.unsafeGetTensorImpl();
  const auto* const about = static_cast<const torch::autograd::AutogradMeta*>(one.autograd_meta());
  if (!about) return true;
  return !(c10::GradMode::is_enabled() && one.requires_grad()) && !about->fw_grad_;
}

}  // namespace pto::torch_adapter
