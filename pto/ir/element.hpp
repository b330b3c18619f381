// SPDX-License-Identifier: Apache-2.0
// evaluate_element(): one element of every elementwise operation, from the instruction table.
//
//     evaluate_element(Opcode::add, DType::F16, DType::F16, x).number.real;  // x holds 0.1, 0.2
//
// Invariant: floats evaluate in double and round once; integers in 64 bits that wrap.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "pto/base/dtype.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// One element: float types use `real`, the others `integer` (bool: 0 or 1).
struct ElementNumber {
  double real = 0;
  int64_t integer = 0;
};

struct ElementValue {
  ElementNumber number;
  double exact = 0;  // before rounding, where the result is a float
};

// `from` is the type of the first operand (for `where`: the second), `to` that of the result.
ElementValue evaluate_element(Opcode op, DType from, DType to, std::span<const ElementNumber> x);

// Return the number from which a reduction folds, and one step of it, which does not round floats.
ElementNumber identity(Opcode op, DType dtype);
ElementNumber fold(Opcode op, DType dtype, ElementNumber total, ElementNumber x);

}  // namespace pto
