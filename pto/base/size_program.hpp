// SPDX-License-Identifier: Apache-2.0
// SizeProgram: a size expression, ready for evaluation at each call without allocation; SizeSteps:
// the steps of many. Both are evaluated by evaluate_sizes.hpp.
//
//     SizeProgram rows(Dim::symbol(0) * 2);
//     const int64_t symbols[] = {21};
//     rows.evaluate(symbols) == 42;
//
// Thread safety: immutable values; threads may share them. SizeSteps: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "pto/base/dims.hpp"
#include "pto/base/evaluate_sizes.hpp"

namespace pto {

// Steps of expressions: operands before operations, equal expressions once.
class SizeSteps {
 public:
  int32_t add(const Dim& dim);  // returns its place

  std::vector<pto_dim> steps;

 private:
  std::map<std::array<int64_t, 4>, int32_t> places_;
};

class SizeProgram {
 public:
  SizeProgram() = default;
  explicit SizeProgram(const Dim& dim);

  // Throws pto::Error where a step leaves 64 bits, divides by zero or does not broadcast.
  int64_t evaluate(const int64_t* symbols) const {
    if (!steps_.empty()) return evaluate_all(symbols);
    return symbol_ < 0 ? value_ : symbols[symbol_];
  }

  const Dim& dim() const { return dim_; }

 private:
  int64_t evaluate_all(const int64_t* symbols) const;

  Dim dim_;
  int64_t value_ = 0;           // the constant
  int symbol_ = -1;             // the symbol; -1 without one
  std::vector<pto_dim> steps_;  // of an expression, which is the last
};

// Rules: sizes are expressions again.
class DimSizes {
 public:
  explicit DimSizes(const pto_dim* dims) : dims_(dims) {}

  Dim number(int64_t value) const { return value; }
  Dim combine(int32_t place, const Dim& a, const Dim& b) const {
    return Dim::make(static_cast<DimOp>(dims_[place].op), a, b);
  }

 private:
  const pto_dim* dims_;
};

}  // namespace pto
