// SPDX-License-Identifier: Apache-2.0
// TypeRule: which element types an operator takes and returns.
//
//     TypeRule rule = parse_types("(T, I) -> T where T: f32 f64, I: integer", schema);
//
// The text has one name for each tensor argument and output, in schema order: a variable, which
// stands for one type in the whole call, or an element type. `where` lists a variable's types by
// name or as float, integer, number (both) or any; without it they are float. An empty text gives
// all tensors one floating-point type.
// Invariant: every tensor argument and output has a variable or a fixed element type.
// Thread safety: plain values, pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pto/base/dtype.hpp"
#include "pto/operators/schema.hpp"

namespace pto {

struct TypeRule {
  std::vector<std::string> names;  // of the variables; an element type that is an argument's is one
  std::vector<uint32_t> sets;      // bit d: DType d is allowed
  std::vector<int> arguments;      // the variable of each tensor argument
  std::vector<int> outputs;        // of each return: the variable, or -1 - DType
};

// Throws pto::Error, naming both, if text and schema do not fit.
TypeRule parse_types(std::string_view text, const Schema& schema);

// Prints "f16 f32".
std::string names_of(uint32_t dtypes);

}  // namespace pto
