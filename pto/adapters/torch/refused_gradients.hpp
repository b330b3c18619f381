// SPDX-License-Identifier: Apache-2.0
// Refused gradients: the errors of node.cpp where a gradient is asked for that does not exist.
//
//     throw std::runtime_error(without_gradient("top_k", "x", ""));
//
// Thread safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <string>

#include "pto/base/error_message.hpp"

namespace pto::torch_adapter {

// `by_it`: " by it" where the operator has gradients by other tensors.
inline std::string without_gradient(const char* op, const char* tensor, const char* by_it) {
  return error_message(
      std::string(op) + ": tensor " + tensor + " requires grad, but the operator has no gradient" +
          by_it,
      "its result would silently cut the graph of gradients",
      "give the operator a grad, call it under torch.no_grad(), or detach the tensor");
}

[[noreturn]] inline void refuse_writing(const char* name) {
  throw std::runtime_error(error_message(
      std::string(name) +
          ": a tensor requires grad, but the call writes into one that it was given",
      "there is no gradient through memory that changes",
      "call the operator that returns a new tensor, or call it under torch.no_grad()"));
}

// Refuses tensors that carry forward-mode derivatives, which would be lost silently.
inline void refuse_forward_mode(const char* name, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor._fw_grad(/*level=*/0).defined()) return;
  throw std::runtime_error(error_message(
      std::string(name) +
          ": called with a tensor that carries a forward-mode derivative (jvp, jacfwd, hessian)",
      "operators have gradients for the backward pass only",
      "take torch.func.jacrev or torch.func.vjp; jacrev(jacrev(f)) for second derivatives"));
}

}  // namespace pto::torch_adapter
