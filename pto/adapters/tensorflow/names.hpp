// SPDX-License-Identifier: Apache-2.0
// Names: what TensorFlow calls an operator, its inputs and its attributes.
//
//     operator_name(softmax) == "Pto_softmax";
//
// TensorFlow wants names that begin with a lower-case letter; another one becomes argument_3.
// Invariant: Python reads the names of inputs and attributes from the definition; node.py knows
// only the prefix Pto_, the letters T, M and N of the attributes for types and counts, and S.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/adapters/operator.hpp"

namespace pto::tensorflow_adapter {

inline std::string operator_name(const pto_operator& op) { return std::string("Pto_") + op.name; }

inline std::string argument_name(const pto_operator& op, int argument) {
  const std::string name = op.arguments[argument].name;
  bool is_legal = name[0] >= 'a' && name[0] <= 'z' && name != "name";
  for (const char c : name) {
    is_legal = is_legal && (c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                            (c >= 'A' && c <= 'Z'));
  }
  return is_legal ? name : "argument_" + std::to_string(argument);
}

// Returns the name of the attribute that holds the element type of a type variable.
inline std::string type_name(int variable) { return "T" + std::to_string(variable); }

// Returns the name of the attribute that counts the tensors of a list or an optional tensor.
inline std::string count_name(int argument) { return "N" + std::to_string(argument); }

// Returns the name of the attribute that counts the tensors of an output list.
inline std::string output_count_name(int output) { return "M" + std::to_string(output); }

// The attribute with the tensors that a node takes and gives, which it holds by their places: a
// saved graph may meet another version of the operator.
inline constexpr const char* kTensorsName = "S";

// Returns the name of the attribute that says whether an optional attribute has a value.
inline std::string given_name(int argument) { return "given_" + std::to_string(argument); }

// Says whether an input is a list for TensorFlow, which has no optional inputs: they are lists of 0
// or 1.
inline bool is_list(const pto_operator_argument& argument) {
  return argument.kind == PTO_KIND_TENSOR_LIST || (is_tensor(argument) && is_optional(argument));
}

}  // namespace pto::tensorflow_adapter
