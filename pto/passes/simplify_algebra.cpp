// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/simplify_algebra.hpp"

#include <algorithm>
#include <cmath>

#include "pto/ir/number.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

using Answer = std::optional<Value>;

// The facts that the rules ask about a node and its operands.
struct Seen {
  GraphBuilder& b;
  const Node& node;

  Value operand(size_t i) const { return node.operands[i]; }
  const Node& at(size_t i) const { return b.node(operand(i)); }
  bool is(size_t i, Opcode op) const { return at(i).op == op; }
  Value inside(size_t i) const { return at(i).operands[0]; }

  // True where the operand is this number, and has its sign where it is a zero.
  bool is_number(size_t i, double number) const {
    const auto value = constant_of(b, operand(i));
    if (!value) return false;
    if (const auto* integer = std::get_if<int64_t>(&*value))
      return static_cast<double>(*integer) == number;
    const double real = std::get<double>(*value);
    return real == number && std::signbit(real) == std::signbit(number);
  }
};

bool is_rounding(Opcode op) {
  return op == Opcode::floor || op == Opcode::ceil || op == Opcode::round || op == Opcode::trunc;
}

Answer simplify_unary(const Seen& s) {
  const Opcode op = s.node.op, inner = s.at(0).op;
  const bool inverse = op == Opcode::neg || op == Opcode::logical_not || op == Opcode::bitwise_not;
  if (inverse && inner == op) return s.inside(0);
  if ((op == Opcode::abs || op == Opcode::relu) && inner == op) return s.operand(0);
  if (op == Opcode::abs && inner == Opcode::neg) return s.b.unary(Opcode::abs, s.inside(0));
  if (is_rounding(op) && is_rounding(inner)) return s.operand(0);
  return std::nullopt;
}

// x / 2^n == x * 2^-n, where the reciprocal is a normal number.
Answer divide_by_power_of_two(const Seen& s) {
  const auto value = constant_of(s.b, s.operand(1));
  const DType dtype = s.node.type.dtype;
  if (!value || !is_float(dtype)) return std::nullopt;
  int exponent = 0;
  const double divisor = std::get<double>(*value);
  const double reciprocal = 1 / divisor;
  if (std::abs(std::frexp(divisor, &exponent)) != 0.5 || !std::isfinite(reciprocal))
    return std::nullopt;
  const bool is_normal =
      round_to(dtype, reciprocal) == reciprocal && spacing(dtype, reciprocal) > spacing(dtype, 0);
  if (!is_normal) return std::nullopt;
  return s.b.binary(Opcode::mul, s.operand(0), s.b.constant(reciprocal, dtype));
}

Answer simplify_neutral(const Seen& s) {
  const bool real = is_float(s.node.type.dtype);
  switch (s.node.op) {
    case Opcode::add:
      if (s.is_number(1, real ? -0.0 : 0.0)) return s.operand(0);
      if (s.is_number(0, real ? -0.0 : 0.0)) return s.operand(1);
      return std::nullopt;
    case Opcode::sub:
      return s.is_number(1, 0) ? Answer(s.operand(0)) : std::nullopt;
    case Opcode::mul:
      if (s.is_number(1, 1)) return s.operand(0);
      if (s.is_number(0, 1)) return s.operand(1);
      return std::nullopt;
    case Opcode::div:
      if (s.is_number(1, 1)) return s.operand(0);
      return divide_by_power_of_two(s);
    case Opcode::pow:
      return s.is_number(1, 1) ? Answer(s.operand(0)) : std::nullopt;
    case Opcode::logical_and:
      if (s.is_number(1, 1)) return s.operand(0);
      return s.is_number(0, 1) ? Answer(s.operand(1)) : std::nullopt;
    case Opcode::logical_or:
      if (s.is_number(1, 0)) return s.operand(0);
      return s.is_number(0, 0) ? Answer(s.operand(1)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

Answer simplify_binary(const Seen& s) {
  if (const Answer neutral = simplify_neutral(s)) return neutral;
  const Opcode op = s.node.op;
  const bool same = s.operand(0) == s.operand(1);
  const bool idempotent = op == Opcode::maximum || op == Opcode::minimum ||
                          op == Opcode::logical_and || op == Opcode::logical_or ||
                          op == Opcode::bitwise_and || op == Opcode::bitwise_or;
  if (same && idempotent) return s.operand(0);
  // For f64 the square root of the double's own error could show; below it the square is exact.
  if (op == Opcode::pow && s.is_number(1, 2) && s.node.type.dtype != DType::F64)
    return s.b.binary(Opcode::mul, s.operand(0), s.operand(0));
  if (op == Opcode::mul && s.is_number(1, -1)) return s.b.unary(Opcode::neg, s.operand(0));
  if (op == Opcode::mul && s.is_number(0, -1)) return s.b.unary(Opcode::neg, s.operand(1));
  if (op == Opcode::add && s.is(1, Opcode::neg))
    return s.b.binary(Opcode::sub, s.operand(0), s.inside(1));
  if (op == Opcode::sub && s.is(1, Opcode::neg))
    return s.b.binary(Opcode::add, s.operand(0), s.inside(1));
  if (op == Opcode::mul && s.is(0, Opcode::neg) && s.is(1, Opcode::neg))
    return s.b.binary(op, s.inside(0), s.inside(1));
  return std::nullopt;
}

Answer simplify_where(const Seen& s) {
  if (s.operand(1) == s.operand(2) || s.is_number(0, 1)) return s.operand(1);
  if (s.is_number(0, 0)) return s.operand(2);
  if (s.is(0, Opcode::logical_not)) return s.b.where(s.inside(0), s.operand(2), s.operand(1));
  return std::nullopt;
}

// True where every value of `from` is one of `to`.
bool contains(DType to, DType from) {
  if (to == from || from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  if (is_float(from)) return to == DType::F64 || (to == DType::F32 && from != DType::F64);
  if (is_float(to))
    return bytes(from) < (to == DType::F64 ? 8 : to == DType::F32 ? 4 : to == DType::F16 ? 2 : 1);
  if (is_signed(from) && !is_signed(to)) return false;
  return bytes(to) > bytes(from) || (bytes(to) == bytes(from) && is_signed(to) == is_signed(from));
}

Answer simplify_cast(const Seen& s) {
  const DType to = s.node.type.dtype, from = s.b.type(s.operand(0)).dtype;
  if (to == from) return s.operand(0);
  if (!s.is(0, Opcode::cast)) return std::nullopt;
  const Value source = s.inside(0);
  if (!contains(from, s.b.type(source).dtype)) return std::nullopt;
  return s.b.cast(source, to);
}

Answer simplify_structure(const Seen& s) {
  const Opcode op = s.node.op;
  const Type& type = s.node.type;
  const bool same = s.b.type(s.operand(0)).shape == type.shape;
  if (op == Opcode::broadcast && same) return s.operand(0);
  if (op == Opcode::reshape && same) return s.operand(0);
  if ((op == Opcode::broadcast || op == Opcode::reshape) && s.is(0, op))
    return s.b.copy(s.node, {s.inside(0)});
  if (op != Opcode::transpose) return std::nullopt;
  std::vector<int64_t> axes = s.node.attributes.axes;
  if (std::is_sorted(axes.begin(), axes.end())) return s.operand(0);
  if (!s.is(0, Opcode::transpose)) return std::nullopt;
  for (int64_t& axis : axes) axis = s.at(0).attributes.axes[static_cast<size_t>(axis)];
  return s.b.transpose(s.inside(0), axes);
}

Answer simplify_reduce(const Seen& s) {
  const Dims& shape = s.b.type(s.operand(0)).shape;
  std::vector<int64_t> axes;
  for (const int64_t axis : s.node.attributes.axes)
    if (shape[static_cast<size_t>(axis)] != Dim(1)) axes.push_back(axis);
  const bool sum_of_floats = s.node.op == Opcode::sum && is_float(s.node.type.dtype);
  // The sum of one -0 is 0 + -0.
  if (axes.empty() && sum_of_floats)
    return s.b.binary(Opcode::add, s.operand(0), s.b.constant(0.0, s.node.type.dtype));
  if (axes.empty()) return s.operand(0);
  if (axes.size() == s.node.attributes.axes.size()) return std::nullopt;
  return s.b.reduce(s.node.op, s.operand(0), axes);
}

Answer simplify_node(GraphBuilder& b, const Node& node) {
  if (node.operands.empty()) return std::nullopt;
  const Seen seen{b, node};
  switch (info(node.op).family) {
    case Family::Unary:
      return simplify_unary(seen);
    case Family::Binary:
      return simplify_binary(seen);
    case Family::Select:
      return simplify_where(seen);
    case Family::Convert:
      return simplify_cast(seen);
    case Family::Reduce:
      return simplify_reduce(seen);
    case Family::Structure:
      return simplify_structure(seen);
    default:
      return std::nullopt;
  }
}

}  // namespace

Graph simplify_algebra(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, simplify_node, notes);
}

}  // namespace pto
