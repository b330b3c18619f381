// SPDX-License-Identifier: Apache-2.0
// Evaluates sizes of pto_shapes in an adapter, one expression at a time, with checked arithmetic.
//
//     int64_t size = 0;
//     const std::string wrong = evaluate_size(shapes, place, left, right, &size);   // "": fine
//
// Adapters compile it beside a framework's headers, with the framework's library ABI: C++17,
// inline.
// Invariant: the operands of an expression stand before it, so evaluation in order needs no
// recursion.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/abi/operator.h"
#include "pto/base/size_arithmetic.hpp"

namespace pto {

// Prints "s0*(s1+1)", at most `depth` levels deep.
inline std::string size_text(const pto_shapes& shapes, int32_t place, int depth = 8) {
  const pto_dim& dim = shapes.dims[place];
  if (dim.op == PTO_DIM_CONSTANT) return std::to_string(dim.value);
  if (dim.op == PTO_DIM_SYMBOL) return "s" + std::to_string(dim.value);
  if (depth == 0) return "...";
  const std::string a = size_text(shapes, dim.left, depth - 1);
  const std::string b = size_text(shapes, dim.right, depth - 1);
  static const char* const kSigns[] = {"", "", " + ", " - ", " * ", " // ", " % "};
  if (dim.op <= PTO_DIM_MOD) return "(" + a + kSigns[dim.op] + b + ")";
  const char* const name = dim.op == PTO_DIM_MIN   ? "min("
                           : dim.op == PTO_DIM_MAX ? "max("
                                                   : "broadcast(";
  return name + a + ", " + b + ")";
}

// Evaluates the size at `place` for these values of its operands. Returns "" and sets *size, or
// returns what is wrong, with expression and values.
inline std::string evaluate_size(const pto_shapes& shapes, int32_t place, int64_t a, int64_t b,
                                 int64_t* size) {
  const SizeFault fault = calculate(static_cast<DimOp>(shapes.dims[place].op), a, b, size);
  if (fault == SizeFault::None) return {};
  const char* const wrong = fault == SizeFault::Overflow       ? " leaves 64 bits"
                            : fault == SizeFault::ZeroDivision ? " divides by zero"
                                                               : " does not broadcast";
  return "the size " + size_text(shapes, place) + wrong + ": its operands are " +
         std::to_string(a) + " and " + std::to_string(b);
}

}  // namespace pto
