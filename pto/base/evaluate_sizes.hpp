// SPDX-License-Identifier: Apache-2.0
// Evaluates size expressions on any kind of number.
//
//     PartialSizes<std::string> rules(shapes);      // sizes of which some are unknown, with names
//     const auto sizes = evaluate_sizes(shapes, symbols, rules);   // one for each of shapes.dims
//
// Rules say what a number is and what becomes of two:
//     Number number(int64_t value);
//     Number combine(int32_t place, const Number& a, const Number& b);   // the step dims[place]
//     void require(const pto_shape_guard& guard, const Number& a, const Number& b);
//
// Invariant: every expression of sizes is evaluated by evaluate_steps(), and numbers that are known
// by calculate(). Steps stand behind their operands; Dim::kMaxParts bounds their expressions.
// Errors: SizeRefusal, without the operator's name. C++17 and inline: adapters compile it beside a
// framework's headers, with its library ABI.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "pto/abi/operator.h"
#include "pto/base/error.hpp"
#include "pto/base/size_arithmetic.hpp"

namespace pto {

struct SizeRefusal : ErrorText {};

// `symbol(index)` is the number of s<index>; `sizes` gets one number for each step.
template <class Number, class Symbol, class Rules>
void evaluate_steps(const pto_dim* dims, int32_t count, const Symbol& symbol, Rules& rules,
                    Number* sizes) {
  for (int32_t i = 0; i < count; ++i) {
    const pto_dim& dim = dims[i];
    if (dim.op == PTO_DIM_CONSTANT) {
      sizes[i] = rules.number(dim.value);
    } else if (dim.op == PTO_DIM_SYMBOL) {
      sizes[i] = symbol(dim.value);
    } else {
      sizes[i] = rules.combine(i, sizes[dim.left], sizes[dim.right]);
    }
  }
}

template <class Number, class Rules>
std::vector<Number> evaluate_sizes(const pto_shapes& shapes, const std::vector<Number>& symbols,
                                   Rules& rules) {
  std::vector<Number> sizes(static_cast<size_t>(shapes.n_dims));
  const auto symbol = [&](int64_t index) { return symbols.at(static_cast<size_t>(index)); };
  evaluate_steps(shapes.dims, shapes.n_dims, symbol, rules, sizes.data());
  const auto at = [&](int32_t place) -> const Number& { return sizes[static_cast<size_t>(place)]; };
  for (int32_t i = 0; i < shapes.n_guards; ++i) {
    const pto_shape_guard& guard = shapes.guards[i];
    if (guard.left != guard.right) rules.require(guard, at(guard.left), at(guard.right));
  }
  return sizes;
}

// A step as a node: what it shares with Dim is what size_text() asks for.
struct StepNode {
  const pto_dim* dims;
  int32_t place;

  DimOp op() const { return static_cast<DimOp>(dims[place].op); }
  int64_t value() const { return dims[place].value; }
  StepNode left() const { return {dims, dims[place].left}; }
  StepNode right() const { return {dims, dims[place].right}; }
};

// "s0*2+1", with no parentheses that the expression can do without.
template <class Node>
std::string size_text(const Node& node) {
  const auto precedence = [](DimOp op) {
    return op <= DimOp::Symbol || op >= DimOp::Min ? 3 : op >= DimOp::Mul ? 2 : 1;
  };
  const DimOp op = node.op();
  if (op == DimOp::Constant) return std::to_string(node.value());
  if (op == DimOp::Symbol) return "s" + std::to_string(node.value());
  const Node& right = node.right();
  const std::string a = size_text<Node>(node.left()), b = size_text<Node>(right);
  if (op >= DimOp::Min) {
    const char* const name = op == DimOp::Min ? "min(" : op == DimOp::Max ? "max(" : "broadcast(";
    return name + a + ", " + b + ")";
  }
  const int level = precedence(op);
  const auto in_parentheses = [](const std::string& part, bool needed) {
    return needed ? "(" + part + ")" : part;
  };
  const std::string front = in_parentheses(a, precedence(node.left().op()) < level);
  if (op == DimOp::Add && right.op() == DimOp::Constant && right.value() < 0 &&
      right.value() != INT64_MIN)
    return front + b;  // "s0-1"
  static const char* const kSigns[] = {"", "", "+", "-", "*", "//", "%"};
  return front + kSigns[static_cast<int>(op)] + in_parentheses(b, precedence(right.op()) <= level);
}

// `operation` names the reduction; `origin` explains the size, such as "s0 = 0 is axis 0 of x".
inline SizeRefusal empty_reduction(const std::string& operation, const std::string& origin = "") {
  return {operation + " over an axis of size 0" + (origin.empty() ? "" : ": " + origin),
          "there is no largest or smallest of no elements",
          "pass a tensor that has elements along the reduced axes, or skip an empty one"};
}

// `count`, a text, is the number of elements of which `because` is not true; `seen` shows one.
inline SizeRefusal broken_check(const std::string& because, const std::string& count,
                                const std::string& seen = "") {
  return {"check: not true" + (count == "1" ? "" : " of " + count + " elements") + ": " + because +
              (seen.empty() ? "" : ": " + seen),
          "the function states it, and goes on only where it is true",
          "pass values of which it is true"};
}

inline SizeRefusal outside_part(const std::string& operation, int64_t axis, int64_t offset,
                                int64_t size, int64_t whole) {
  const bool fits = size >= 0 && size <= whole;
  return {operation + ": axis " + std::to_string(axis) + ", offset " + std::to_string(offset) +
              " and size " + std::to_string(size) + " of " + std::to_string(whole),
          "a view lies inside its tensor",
          std::string(fits ? "choose an offset" : "choose a size") + " from 0 to " +
              std::to_string(fits ? whole - size : whole)};
}

// Takes `a` and `b` as texts, since sizes of frameworks may be symbols.
inline SizeRefusal unequal_sizes(const std::string& a, const std::string& b,
                                 const std::string& because, int32_t guard_kind) {
  if (guard_kind == PTO_GUARD_NONEMPTY) return empty_reduction(because);
  if (guard_kind == PTO_GUARD_HOLDS) return broken_check(because, a);
  return {"sizes " + a + " and " + b + " differ in " + because,
          "the operator needs them to be equal",
          "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1"};
}

// `size` is a quotient or a remainder.
inline SizeRefusal zero_division(const std::string& size, const std::string& dividend) {
  return {"the size " + size + " divides by zero: its operands are " + dividend + " and 0",
          "sizes are signed 64-bit numbers, and divisors are not 0",
          "pass tensors of other sizes, or limit the divisor: pto.max(n, 1)"};
}

inline SizeRefusal refused_step(const pto_dim* dims, int32_t place, const std::string& a,
                                const std::string& b, SizeFault fault) {
  if (fault == SizeFault::Mismatch) return unequal_sizes(a, b, "broadcasting", PTO_GUARD_EQUAL);
  const std::string text = size_text(StepNode{dims, place});
  if (fault == SizeFault::ZeroDivision) return zero_division(text, a);
  return {"the size " + text + " leaves 64 bits: its operands are " + a + " and " + b,
          "sizes are signed 64-bit numbers", "pass tensors of other sizes"};
}

[[gnu::noinline]] inline int64_t calculate_slowly(const pto_dim* dims, int32_t place, int64_t a,
                                                  int64_t b) {
  int64_t size = 0;
  const SizeFault fault = calculate(static_cast<DimOp>(dims[place].op), a, b, &size);
  if (fault == SizeFault::None) return size;
  throw refused_step(dims, place, std::to_string(a), std::to_string(b), fault);
}

// The value of the step dims[place]; throws SizeRefusal.
inline int64_t calculate_step(const pto_dim* dims, int32_t place, int64_t a, int64_t b) {
  const int32_t op = dims[place].op;
  int64_t size = 0;  // the two operations of most expressions, without a call
  if (op == PTO_DIM_MUL && !__builtin_mul_overflow(a, b, &size)) return size;
  if (op == PTO_DIM_ADD && !__builtin_add_overflow(a, b, &size)) return size;
  return calculate_slowly(dims, place, a, b);
}

inline void require_equal(const pto_shape_guard& guard, int64_t a, int64_t b) {
  if (a != b) throw unequal_sizes(std::to_string(a), std::to_string(b), guard.because, guard.kind);
}

// Rules: every size is known.
class KnownSizes {
 public:
  explicit KnownSizes(const pto_dim* dims) : dims_(dims) {}
  explicit KnownSizes(const pto_shapes& shapes) : dims_(shapes.dims) {}

  int64_t number(int64_t value) const { return value; }
  int64_t combine(int32_t place, int64_t a, int64_t b) const {
    return calculate_step(dims_, place, a, b);
  }
  void require(const pto_shape_guard& guard, int64_t a, int64_t b) const {
    require_equal(guard, a, b);
  }

 private:
  const pto_dim* dims_;
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

  explicit PartialSizes(const pto_shapes& shapes) : dims_(shapes.dims) {}

  Size number(int64_t value) const { return Size::number(value); }

  Size combine(int32_t place, const Size& a, const Size& b) const {
    const int32_t op = dims_[place].op;
    if (a.is_known && b.is_known)
      return Size::number(calculate_step(dims_, place, a.value, b.value));
    if (op == PTO_DIM_BROADCAST) return broadcast(a, b);
    if (op == PTO_DIM_MUL && (a.is(0) || b.is(0))) return Size::number(0);
    if ((op == PTO_DIM_FLOORDIV || op == PTO_DIM_MOD) && b.is(0))
      throw refused_step(dims_, place, "an unknown size", "0", SizeFault::ZeroDivision);
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

  const pto_dim* dims_;
};

}  // namespace pto
