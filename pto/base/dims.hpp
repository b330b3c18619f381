// SPDX-License-Identifier: Apache-2.0
// Dim: one size of a tensor, a number or an expression over symbols; Dims: a shape.
//
//     const Dim rows = Dim::symbol(0), cols = 384;
//     text(rows * 2 + 1) == "s0*2+1";
//     (rows * 0).is_constant();
//     evaluate(rows * cols, {4}) == 1536;
//
// Invariant: equal expressions print equally and compare equal after simplification (constants
// folded, x+0, x*1, x*0, x-x, x//1, x%1, min(x,x), max(x,x), broadcast(x,x), broadcast(x,1); chains
// of + * min max broadcast flattened, in a fixed order, the constant last). Division and remainder
// floor. Values have 64 bits, and overflow is an error. An expression has at most kMaxParts numbers
// and symbols, which bounds the stack and the length of its text.
// Thread safety: immutable values; threads may share them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pto/base/size_arithmetic.hpp"

namespace pto {

class Dim {
 public:
  static constexpr int kMaxParts = 1024;

  Dim(int64_t value = 0) : value_(value) {}
  static Dim symbol(int index);
  static Dim make(DimOp op, const Dim& a, const Dim& b);  // simplifies; throws beyond kMaxParts

  DimOp op() const { return op_; }
  bool is_constant() const { return op_ == DimOp::Constant; }
  bool is_symbol() const { return op_ == DimOp::Symbol; }
  int64_t value() const { return value_; }  // the constant, or the index of the symbol
  const Dim& left() const { return (*operands_)[0]; }
  const Dim& right() const { return (*operands_)[1]; }

  friend bool operator==(const Dim& a, const Dim& b);

 private:
  static Dim node(DimOp op, const Dim& a, const Dim& b);
  static Dim with_part(DimOp op, const Dim& chain, const Dim& part);

  DimOp op_ = DimOp::Constant;
  int32_t parts_ = 1;  // numbers and symbols below, counted as often as they print
  int64_t value_ = 0;
  std::shared_ptr<const std::vector<Dim>> operands_;  // left and right; null for a leaf
};

inline bool is_one(const Dim& dim) { return dim.is_constant() && dim.value() == 1; }

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim floordiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

// Broadcasts two sizes as NumPy does: b where a is 1, a where b is 1 or equal. Evaluation fails for
// other pairs.
Dim broadcast(const Dim& a, const Dim& b);

using Dims = std::vector<Dim>;

std::string text(const Dim& dim);
std::string text(const Dims& dims);  // "[s0, 384]"

// Reads the text that text(dim) prints; throws pto::Error naming the column.
Dim parse_dim(std::string_view text);

// Reads the longest expression at `position` and moves behind it. Without one it returns nothing
// and moves `position` to the first character that does not fit.
std::optional<Dim> read_dim(std::string_view text, size_t& position);

// Calls f(index) for each symbol, from left to right, as often as it prints.
template <class F>
void each_symbol(const Dim& dim, const F& f) {
  if (dim.is_symbol()) f(dim.value());
  if (dim.op() <= DimOp::Symbol) return;
  each_symbol(dim.left(), f);
  each_symbol(dim.right(), f);
}

// Says whether a size is at least 1 for all symbols, which are at least 0; false where that is not
// plain to see.
bool is_positive(const Dim& dim);

// Calls f(quotient) for each part of the expression that divides, or takes a remainder, by what may
// be 0.
template <class F>
void each_quotient(const Dim& dim, const F& f) {
  if (dim.op() <= DimOp::Symbol) return;
  each_quotient(dim.left(), f);
  each_quotient(dim.right(), f);
  const bool divides = dim.op() == DimOp::FloorDiv || dim.op() == DimOp::Mod;
  if (divides && !is_positive(dim.right())) f(dim);
}

// Computes the value with symbols[i] for s<i>; throws pto::Error for a missing symbol, a division
// by zero, sizes that do not broadcast, or a step that leaves 64 bits.
int64_t evaluate(const Dim& dim, const std::vector<int64_t>& symbols);

// Puts replacement[i] in the place of s<i>; symbols beyond the vector stay.
Dim substitute(const Dim& dim, const std::vector<Dim>& replacement);

Dim product(const Dims& dims);

}  // namespace pto
