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

// Bounds a reduction, element by element: after each add(), at() bounds the reduction so far.
class ReductionBound {
 public:
  ReductionBound(Opcode op, DType dtype) : op_(op), dtype_(dtype) {}

  void add(ElementNumber x, double b);  // which may be off by b
  // Bounds the reduction to `value`; an element of a sum passes through `steps` additions.
  double at(double steps, ElementNumber value) const;
  size_t count() const { return count_; }

 private:
  double of_sum(double steps, ElementNumber value) const;
  double of_product(ElementNumber value) const;

  const Opcode op_;
  const DType dtype_;
  size_t count_ = 0;
  double most_ = 0;                              // of the b
  bool is_finite_ = true;                        // of the x
  double total_ = 0, off_ = 0;                   // a sum: of the sizes, and of the b
  int lowest_ = 2000;                            // a sum: the terms are multiples of 2^lowest
  double above_ = 1, below_ = 1, relative_ = 1;  // a product: of those above 1, and the others
  bool is_integral_ = true;
};

// Bounds a reduction of x to `value`; an element of a sum passes through `steps` additions.
double reduction_bound(Opcode op, DType dtype, std::span<const ElementNumber> x,
                       std::span<const double> b, double steps, ElementNumber value);

// Adds the error of rounding to the type at an output.
double output_bound(DType dtype, ElementNumber value, double bound);

}  // namespace pto
