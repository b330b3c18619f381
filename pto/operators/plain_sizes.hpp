// SPDX-License-Identifier: Apache-2.0
// The sizes of pto_shapes in an adapter: its own evaluation in order, with the checked arithmetic.
//
//     int64_t size = 0;
//     const std::string wrong = evaluate_size(shapes, place, left, right, &size);   // "" where
//     right
//
// C++17 and inline: adapters compile it beside a framework's headers, with its library ABI.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/abi/operator.h"
#include "pto/base/size_arithmetic.hpp"

namespace pto {

// "s0*(s1+1)", as far as `depth` more levels.
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

// The size at `place`, of operands with these values: "" where *size has it, else what is wrong,
// with expression and values.
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
