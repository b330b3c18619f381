// SPDX-License-Identifier: Apache-2.0
// SizeProgram: a size expression, ready for evaluation at each call without allocation.
//
//     SizeProgram rows(Dim::symbol(0) * 2);
//     const int64_t symbols[] = {21};
//     rows.evaluate(symbols) == 42;
//
// Invariant: evaluate() gives what evaluate(dim, symbols) of base/dims.hpp gives, or throws.
// Thread safety: immutable values; threads may share them.
#pragma once

#include <cstdint>
#include <vector>

#include "pto/base/dims.hpp"

namespace pto {

class SizeProgram {
 public:
  SizeProgram() = default;

  // Throws pto::Error where the expression is nested deeper than kMaxDepth.
  explicit SizeProgram(const Dim& dim);

  // Throws pto::Error where a step leaves 64 bits or divides by zero.
  int64_t evaluate(const int64_t* symbols) const {
    if (!steps_.empty()) return evaluate_steps(symbols);
    return symbol_ < 0 ? value_ : symbols[symbol_];
  }

  const Dim& dim() const { return dim_; }

  static constexpr int kMaxDepth = 32;

 private:
  struct Step {
    DimOp op;
    int64_t value;  // the constant, or the index of the symbol
  };
  void append(const Dim& dim, int depth);
  int64_t evaluate_steps(const int64_t* symbols) const;
  int64_t apply(DimOp op, int64_t a, int64_t b) const;

  Dim dim_;
  int64_t value_ = 0;        // the constant
  int symbol_ = -1;          // the symbol; -1 without one
  std::vector<Step> steps_;  // the expression's, operands first
};

}  // namespace pto
