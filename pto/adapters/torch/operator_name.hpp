// SPDX-License-Identifier: Apache-2.0
// The names of operators in PyTorch.
//
//     qualified_name(*pto_operator_find("gelu")) == "pto::gelu";
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/abi/operator.h"

namespace pto::torch_adapter {

// Returns "pto::gelu"; an operator with a namespace keeps its name.
inline std::string qualified_name(const pto_operator& op) {
  const std::string name = op.name;
  return name.find("::") == name.npos ? "pto::" + name : name;
}

// Returns the namespace: "pto".
inline std::string space_of(const pto_operator& op) {
  const std::string name = qualified_name(op);
  return name.substr(0, name.find("::"));
}

}  // namespace pto::torch_adapter
