// SPDX-License-Identifier: Apache-2.0
// How far compiled code may be from the interpreter, element by element; used by interpret.cpp.
//
// Invariant: for operands within their bounds and any rounding that compiled code is allowed, the
// result lies within the bound; where nothing can be said it is infinite.
// Thread safety: pure functions.
#pragma once

#include <span>
#include <vector>

#include "pto/ir/element.hpp"

namespace pto {

// The bound of an elementwise operation whose operands x may be off by b.
double element_bound(Opcode op, DType from, DType to, std::span<const Number> x,
                     std::span<const double> b, const ElementValue& value);

// How many additions an element of a sum passes through at most: see isa/reduce/block_sums.hpp.
double steps_of_sum(size_t count);

// The bound of a reduction of x to `value`; an element of a sum passes through `steps` additions.
double reduction_bound(Opcode op, DType dtype, std::span<const Number> x, std::span<const double> b,
                       double steps, Number value);

// What rounding to the type at an output adds.
double output_bound(DType dtype, Number value, double bound);

}  // namespace pto
