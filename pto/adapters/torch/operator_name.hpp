// SPDX-License-Identifier: Apache-2.0
// The names of operators in PyTorch.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/abi/operator.h"

namespace pto::torch_adapter {

// "pto::gelu"; the name of one that stands in a space of its own as it is.
inline std::string qualified_name(const pto_operator& op) {
  const std::string name = op.name;
  return name.find("::") == name.npos ? "pto::" + name : name;
}

// The space: "pto".
inline std::string space_of(const pto_operator& op) {
  const std::string name = qualified_name(op);
  return name.substr(0, name.find("::"));
}

}  // namespace pto::torch_adapter
