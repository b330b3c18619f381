// SPDX-License-Identifier: Apache-2.0
// Gradient lists: the gradients that an operator's `grad` returned for a list of tensors.
//
// Thread safety: pure function.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "pto/abi/operator.h"
#include "pto/base/error_message.hpp"

namespace pto::torch_adapter {

// Returns the gradient of the i-th tensor of a plan, which a result is or holds; throws where a
// list has more or fewer gradients than there are tensors.
inline at::Tensor gradient_from(const c10::IValue& result, const pto_operator& op,
                                const pto_gradient_plan& plan, int i) {
  if (!result.isTensorList()) return result.toTensor();
  const c10::List<at::Tensor> found = result.toTensorList();
  const auto count =
      static_cast<size_t>(std::count(plan.outputs, plan.outputs + plan.n_given, plan.outputs[i]));
  if (found.size() == count) return found.get(static_cast<size_t>(plan.members[i]));
  throw std::runtime_error(
      error_message(std::string(op.name) + ": grad returned " + std::to_string(found.size()) +
                        " gradients for a list of " + std::to_string(count) + " tensors",
                    "each tensor of the list has a gradient",
                    "return a list with a gradient for each tensor of the list"));
}

}  // namespace pto::torch_adapter
