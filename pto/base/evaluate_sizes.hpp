// SPDX-License-Identifier: Apache-2.0
// Evaluates the size expressions of an operator's call on any kind of number.
//
//     PartialSizes<std::string> rules(shapes);      // sizes of which some are unknown, with names
//     const auto sizes = evaluate_sizes(shapes, symbols, rules);   // one for each of shapes.dims
//
// Rules say what a number is and what becomes of two:
//     Number number(int64_t value);
//     Number combine(int32_t place, const Number& a, const Number& b);   // the step dims[place]
//     void require(const pto_shape_guard& guard, const Number& a, const Number& b);
//
// Invariant: every adapter evaluates sizes by this loop, and numbers that are known by calculate().
// Errors: SizeRefusal, without the operator's name. C++17 and inline: adapters compile it beside a
// framework's headers, with its library ABI.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "pto/abi/operator.h"
#include "pto/base/size_arithmetic.hpp"

namespace pto {

struct SizeRefusal {
  std::string what, why, fix;
};

template <class Number, class Rules>
std::vector<Number> evaluate_sizes(const pto_shapes& shapes, const std::vector<Number>& symbols,
                                   Rules& rules) {
  std::vector<Number> sizes;
  sizes.reserve(static_cast<size_t>(shapes.n_dims));
  const auto at = [&](int32_t place) -> const Number& { return sizes[static_cast<size_t>(place)]; };
  for (int32_t i = 0; i < shapes.n_dims; ++i) {
    const pto_dim& dim = shapes.dims[i];
    if (dim.op == PTO_DIM_CONSTANT) {
      sizes.push_back(rules.number(dim.value));
    } else if (dim.op == PTO_DIM_SYMBOL) {
      sizes.push_back(symbols.at(static_cast<size_t>(dim.value)));
    } else {
      sizes.push_back(rules.combine(i, at(dim.left), at(dim.right)));
    }
  }
  for (int32_t i = 0; i < shapes.n_guards; ++i) {
    const pto_shape_guard& guard = shapes.guards[i];
    if (guard.left != guard.right) rules.require(guard, at(guard.left), at(guard.right));
  }
  return sizes;
}

// Prints a size as "(s0 * 3)"; "..." stands for what lies more than `depth` levels down.
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

// Takes `a` and `b` as texts, since sizes of frameworks may be symbols.
inline SizeRefusal unequal_sizes(const std::string& a, const std::string& b,
                                 const std::string& because, int32_t guard_kind) {
  if (guard_kind == PTO_GUARD_NONEMPTY)
    return {because + " over an axis of size 0", "there is no largest or smallest of no elements",
            "pass a tensor that has elements along the reduced axes, or skip an empty one"};
  return {"sizes " + a + " and " + b + " differ in " + because,
          "the operator needs them to be equal",
          "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1"};
}

inline SizeRefusal refused_step(const pto_shapes& shapes, int32_t place, const std::string& a,
                                const std::string& b, SizeFault fault) {
  if (fault == SizeFault::Mismatch) return unequal_sizes(a, b, "broadcasting", PTO_GUARD_EQUAL);
  const char* const wrong = fault == SizeFault::Overflow ? " leaves 64 bits" : " divides by zero";
  return {"the size " + size_text(shapes, place) + wrong + ": its operands are " + a + " and " + b,
          "sizes are signed 64-bit numbers, and divisors are not 0", "pass tensors of other sizes"};
}

// Returns the value of the step dims[place]; throws SizeRefusal.
inline int64_t calculate_step(const pto_shapes& shapes, int32_t place, int64_t a, int64_t b) {
  int64_t size = 0;
  const SizeFault fault = calculate(static_cast<DimOp>(shapes.dims[place].op), a, b, &size);
  if (fault != SizeFault::None)
    throw refused_step(shapes, place, std::to_string(a), std::to_string(b), fault);
  return size;
}

inline void require_equal(const pto_shape_guard& guard, int64_t a, int64_t b) {
  if (a != b) throw unequal_sizes(std::to_string(a), std::to_string(b), guard.because, guard.kind);
}

// Rules: every size is known.
class KnownSizes {
 public:
  explicit KnownSizes(const pto_shapes& shapes) : shapes_(shapes) {}

  int64_t number(int64_t value) const { return value; }
  int64_t combine(int32_t place, int64_t a, int64_t b) const {
    return calculate_step(shapes_, place, a, b);
  }
  void require(const pto_shape_guard& guard, int64_t a, int64_t b) const {
    require_equal(guard, a, b);
  }

 private:
  const pto_shapes& shapes_;
};

// A size that may be unknown. Unknown sizes of one name are equal; those of Name() may differ.
template <class Name>
struct PartialSize {
  bool is_known = false;
  int64_t value = 0;
  Name name = Name();

  static PartialSize number(int64_t value) { return {true, value, Name()}; }
  static PartialSize unknown(Name name = Name()) { return {false, 0, name}; }
  bool is(int64_t number) const { return is_known && value == number; }
};

// Rules: a size that depends on an unknown one is unknown, but for what is known all the same.
template <class Name>
class PartialSizes {
 public:
  using Size = PartialSize<Name>;

  explicit PartialSizes(const pto_shapes& shapes) : shapes_(shapes) {}

  Size number(int64_t value) const { return Size::number(value); }

  Size combine(int32_t place, const Size& a, const Size& b) const {
    const int32_t op = shapes_.dims[place].op;
    if (a.is_known && b.is_known)
      return Size::number(calculate_step(shapes_, place, a.value, b.value));
    if (op == PTO_DIM_BROADCAST) return broadcast(a, b);
    if (op == PTO_DIM_MUL && (a.is(0) || b.is(0))) return Size::number(0);
    if ((op == PTO_DIM_FLOORDIV || op == PTO_DIM_MOD) && b.is(0))
      throw refused_step(shapes_, place, "an unknown size", "0", SizeFault::ZeroDivision);
    return Size::unknown();
  }

  void require(const pto_shape_guard& guard, const Size& a, const Size& b) const {
    if (a.is_known && b.is_known) require_equal(guard, a.value, b.value);
  }

 private:
  // Broadcasts two sizes of which one is unknown: it is 1 or the other.
  static Size broadcast(const Size& a, const Size& b) {
    if (a.is(1)) return b;
    if (b.is(1) || a.is_known) return a;
    if (b.is_known) return b;
    return !(a.name == Name()) && a.name == b.name ? a : Size::unknown();
  }

  const pto_shapes& shapes_;
};

}  // namespace pto
