// SPDX-License-Identifier: Apache-2.0
// element(): the value of one element of every elementwise operation, from the instruction table.
//
//     element(Opcode::add, DType::F16, DType::F16, {Number{0.1}, Number{0.2}}).number.real
//
// Invariants: floats evaluate in double and round once; integers in 64 bits that wrap.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "pto/base/dtype.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// One element: `real` counts for float types, `integer` for the others (bool: 0 or 1).
struct Number {
  double real = 0;
  int64_t integer = 0;
};

struct ElementValue {
  Number number;
  double exact = 0;  // before rounding, where the result is a float
};

// `from` is the type of the first operand (of `where`: of the second), `to` of the result.
ElementValue element(Opcode op, DType from, DType to, std::span<const Number> x);

// A reduction as a fold: it starts from the identity; `fold` does not round floats.
Number identity(Opcode op, DType dtype);
Number fold(Opcode op, DType dtype, Number total, Number x);

}  // namespace pto
