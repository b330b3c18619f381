// SPDX-License-Identifier: Apache-2.0
// has_plain_keys() says whether a tensor lies in the processor's memory and is no subclass, wrapper
// or lazy conjugate: at most autograd and autocast see its calls.
// Thread safety: pure function.
#pragma once

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

namespace pto::torch_adapter {

inline bool has_plain_keys(const at::Tensor& tensor) {
  static const uint64_t plain = [] {
    const c10::InferenceMode outside(false);
    return at::empty({0}).key_set().raw_repr();
  }();
  return (tensor.key_set().raw_repr() & ~plain) == 0;
}

}  // namespace pto::torch_adapter
