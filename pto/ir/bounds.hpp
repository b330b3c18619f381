// SPDX-License-Identifier: Apache-2.0
// Bounds: how far compiled code may be from the interpreter, element by element; interpret.cpp uses
// them.
//
//     element_bound(Opcode::add, DType::F32, DType::F32, x, b, value);
//
// Invariant: for operands within their bounds and any rounding that compiled code is allowed, the
// result lies within the bound; an infinite bound allows any value.
// Thread safety: pure functions.
#pragma once

#include <span>
#include <vector>

#include "pto/ir/element.hpp"

namespace pto {

// Bounds an elementwise operation whose operands x may be off by b.
double element_bound(Opcode op, DType from, DType to, std::span<const ElementNumber> x,
                     std::span<const double> b, const ElementValue& value);

// Counts the additions that an element of a sum passes through at most: see
// isa/reduce/block_sums.hpp.
double steps_of_sum(size_t count);

// Bounds a reduction of x to `value`; an element of a sum passes through `steps` additions.
double reduction_bound(Opcode op, DType dtype, std::span<const ElementNumber> x,
                       std::span<const double> b, double steps, ElementNumber value);

// Adds the error of rounding to the type at an output.
double output_bound(DType dtype, ElementNumber value, double bound);

}  // namespace pto
