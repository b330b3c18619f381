// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/algebra_rules.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "pto/base/number.hpp"
#include "pto/passes/pattern.hpp"
#include "pto/passes/rewrite.hpp"
#include "pto/passes/turned_axes.hpp"

namespace pto {
namespace {

using Answer = std::optional<Value>;

// For f64 the square root of the double's own error could show; below it the square is exact.
bool is_below_f64(const Node& node) { return node.type.dtype != DType::F64; }

// The negated 1 of an unsigned type is its largest value, which abs() leaves.
bool has_sign(const Node& node) { return is_signed(node.type.dtype); }

// Sums that wrap are taken back exactly.
bool is_whole(const Node& node) { return !is_float(node.type.dtype); }

// The reciprocal must be a normal number.
Answer divide_by_power_of_two(GraphBuilder& b, const Node& node) {
  const auto value = constant_of(b, node.operands[1]);
  const DType dtype = node.type.dtype;
  if (!value || !is_float(dtype)) return std::nullopt;
  int exponent = 0;
  const double divisor = std::get<double>(*value);
  const double reciprocal = 1 / divisor;
  if (std::abs(std::frexp(divisor, &exponent)) != 0.5 || !std::isfinite(reciprocal))
    return std::nullopt;
  const bool is_normal =
      round_to(dtype, reciprocal) == reciprocal && spacing(dtype, reciprocal) > spacing(dtype, 0);
  if (!is_normal) return std::nullopt;
  return b.binary(Opcode::mul, node.operands[0], b.constant(reciprocal, dtype));
}

// --- casts ---------------------------------------------------------------------------------------

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

Answer cast_to_own_type(GraphBuilder& b, const Node& node) {
  return node.type.dtype == b.type(node.operands[0]).dtype ? Answer(node.operands[0])
                                                           : std::nullopt;
}

Answer cast_through_wider_type(GraphBuilder& b, const Node& node) {
  const Node& inner = b.node(node.operands[0]);
  if (inner.op != Opcode::cast) return std::nullopt;
  const Value source = inner.operands[0];
  const DType from = b.type(source).dtype, through = inner.type.dtype, to = node.type.dtype;
  if (!contains(through, from)) return std::nullopt;
  // A float beyond the range of `to` gives its nearest end, where an integer wraps.
  const bool may_differ = is_integer(from) && is_float(through) && is_integer(to);
  if (may_differ && !contains(to, from)) return std::nullopt;
  return b.cast(source, to);
}

// --- structure -----------------------------------------------------------------------------------

Answer to_own_shape(GraphBuilder& b, const Node& node) {
  return node.type.shape == b.type(node.operands[0]).shape ? Answer(node.operands[0])
                                                           : std::nullopt;
}

Answer twice(GraphBuilder& b, const Node& node) {
  const Node& inner = b.node(node.operands[0]);
  return inner.op == node.op ? Answer(b.copy(node, {inner.operands[0]})) : std::nullopt;
}

Answer transpose_in_order(GraphBuilder&, const Node& node) {
  const std::vector<int64_t>& axes = node.attributes.axes;
  return std::is_sorted(axes.begin(), axes.end()) ? Answer(node.operands[0]) : std::nullopt;
}

Answer transpose_twice(GraphBuilder& b, const Node& node) {
  const Node& inner = b.node(node.operands[0]);
  if (inner.op != Opcode::transpose) return std::nullopt;
  return b.transpose(inner.operands[0], composed(inner.attributes.axes, node.attributes.axes));
}

// --- reductions ----------------------------------------------------------------------------------

std::vector<int64_t> axes_not_1(const GraphBuilder& b, const Node& node) {
  std::vector<int64_t> axes;
  for (const int64_t axis : node.attributes.axes)
    if (b.type(node.operands[0]).shape[static_cast<size_t>(axis)] != Dim(1)) axes.push_back(axis);
  return axes;
}

// The sum of one -0 is 0 + -0.
Answer sum_of_one(GraphBuilder& b, const Node& node) {
  const DType dtype = node.type.dtype;
  if (!is_float(dtype) || !axes_not_1(b, node).empty()) return std::nullopt;
  return b.binary(Opcode::add, node.operands[0], b.constant(0.0, dtype));
}

Answer reduce_one(GraphBuilder& b, const Node& node) {
  return axes_not_1(b, node).empty() ? Answer(node.operands[0]) : std::nullopt;
}

Answer reduce_fewer_axes(GraphBuilder& b, const Node& node) {
  const std::vector<int64_t> axes = axes_not_1(b, node);
  if (axes.size() == node.attributes.axes.size()) return std::nullopt;
  return b.reduce(node.op, node.operands[0], axes);
}

// Positions that repeat along other axes than theirs serve all of each, as those of size 1 do.
Answer repeated_positions(GraphBuilder& b, const Node& node) {
  const Node index = b.node(node.operands[1]);
  if (index.op != Opcode::broadcast) return std::nullopt;
  const Dims from = b.type(index.operands[0]).shape;
  Dims shape = from;
  shape.insert(shape.begin(), index.type.shape.size() - from.size(), Dim(1));
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  if (shape[axis] != index.type.shape[axis]) return std::nullopt;
  std::vector<Value> operands = node.operands;
  operands[1] = shape == from ? index.operands[0] : b.reshape(index.operands[0], shape);
  return b.copy(node, std::move(operands));
}

// --- the table -----------------------------------------------------------------------------------

// clang-format off
constexpr AlgebraRule kRules[] = {
    {"neg_twice", "neg(neg(x))", "x"},
    {"not_twice", "logical_not(logical_not(x))", "x"},
    {"complement_twice", "bitwise_not(bitwise_not(x))", "x"},
    {"abs_twice", "abs(abs(x))", "abs(x)"},
    {"relu_twice", "relu(relu(x))", "relu(x)"},
    {"abs_of_negated", "abs(neg(x))", "abs(x)", has_sign},
    {"floor_of_rounded", "floor(r)", "r"},
    {"ceil_of_rounded", "ceil(r)", "r"},
    {"round_of_rounded", "round(r)", "r"},
    {"trunc_of_rounded", "trunc(r)", "r"},

    {"add_zero", "add(x, -0)", "x"},
    {"zero_add", "add(-0, x)", "x"},
    {"add_negated", "add(x, neg(y))", "sub(x, y)"},
    {"sub_zero", "sub(x, 0)", "x"},
    {"sub_negated", "sub(x, neg(y))", "add(x, y)"},
    {"sub_of_sum", "sub(add(x, y), x)", "y", is_whole},
    {"sub_of_sum_behind", "sub(add(x, y), y)", "x", is_whole},
    {"mul_one", "mul(x, 1)", "x"},
    {"one_mul", "mul(1, x)", "x"},
    {"mul_minus_one", "mul(x, -1)", "neg(x)"},
    {"minus_one_mul", "mul(-1, x)", "neg(x)"},
    {"mul_negated", "mul(neg(x), neg(y))", "mul(x, y)"},
    {"div_one", "div(x, 1)", "x"},
    {"div_power_of_two", "div(x, 2^n)", "mul(x, 2^-n)", nullptr, divide_by_power_of_two},
    {"pow_one", "pow(x, 1)", "x"},
    {"square", "pow(x, 2)", "mul(x, x)", is_below_f64},
    {"and_true", "logical_and(x, 1)", "x"},
    {"true_and", "logical_and(1, x)", "x"},
    {"or_false", "logical_or(x, 0)", "x"},
    {"false_or", "logical_or(0, x)", "x"},
    {"maximum_of_same", "maximum(x, x)", "x"},
    {"minimum_of_same", "minimum(x, x)", "x"},
    {"and_of_same", "logical_and(x, x)", "x"},
    {"or_of_same", "logical_or(x, x)", "x"},
    {"bits_and_of_same", "bitwise_and(x, x)", "x"},
    {"bits_or_of_same", "bitwise_or(x, x)", "x"},

    {"where_same", "where(c, x, x)", "x"},
    {"where_true", "where(1, x, y)", "x"},
    {"where_false", "where(0, x, y)", "y"},
    {"where_not", "where(logical_not(c), x, y)", "where(c, y, x)"},

    {"cast_to_own_type", "cast(x: T) to T", "x", nullptr, cast_to_own_type},
    {"cast_through_wider_type", "cast(cast(x) to a type that has all of x's values) to T",
     "cast(x) to T", nullptr, cast_through_wider_type},
    {"broadcast_to_own_shape", "broadcast(x: shape) to shape", "x", nullptr, to_own_shape},
    {"broadcast_twice", "broadcast(broadcast(x))", "broadcast(x)", nullptr, twice},
    {"reshape_to_own_shape", "reshape(x: shape) to shape", "x", nullptr, to_own_shape},
    {"reshape_twice", "reshape(reshape(x))", "reshape(x)", nullptr, twice},
    {"transpose_in_order", "transpose(x) with axes 0, 1, ...", "x", nullptr, transpose_in_order},
    {"transpose_twice", "transpose(transpose(x))", "transpose(x)", nullptr, transpose_twice},
    {"sum_of_one", "sum(x: floats) over sizes of 1", "add(x, 0)", nullptr, sum_of_one},
    {"reduce_one", "reduce(x) over sizes of 1", "x", nullptr, reduce_one},
    {"reduce_fewer_axes", "reduce(x) over axes of which some are 1", "reduce(x) over the others",
     nullptr, reduce_fewer_axes},
    {"gather_repeated", "gather(x, broadcast(i))", "gather(x, i)", nullptr, repeated_positions},
    {"scatter_repeated", "scatter(x, broadcast(i), y)", "scatter(x, i, y)", nullptr,
     repeated_positions},
    {"scatter_add_repeated", "scatter_add(x, broadcast(i), y)", "scatter_add(x, i, y)", nullptr,
     repeated_positions},
};
// clang-format on

// A rule with its texts read; both are empty for a rule that computes.
struct ReadRule {
  const AlgebraRule* rule;
  std::optional<Pattern> pattern, replacement;

  explicit ReadRule(const AlgebraRule& rule) : rule(&rule) {
    if (rule.compute != nullptr) return;
    pattern.emplace(rule.pattern);
    replacement.emplace(rule.replacement);
  }

  Answer apply(GraphBuilder& b, const Node& node) const {
    if (rule->applies != nullptr && !rule->applies(node)) return std::nullopt;
    if (rule->compute != nullptr) return rule->compute(b, node);
    Bindings bound;
    if (!pattern->matches(b, node, &bound)) return std::nullopt;
    return replacement->build(b, bound);
  }
};

// Returns the operation with which the pattern begins; nothing for all reductions.
std::optional<Opcode> root_of(const AlgebraRule& rule) {
  const std::string_view text = rule.pattern;
  return parse_opcode(text.substr(0, text.find('(')));
}

// The table, read once.
struct ReadTable {
  std::map<Opcode, std::vector<ReadRule>> by_operation;
  std::vector<ReadRule> of_reductions;

  ReadTable() {
    for (const AlgebraRule& rule : kRules) {
      const std::optional<Opcode> root = root_of(rule);
      (root ? by_operation[*root] : of_reductions).emplace_back(rule);
    }
  }
};

Answer first_of(const std::vector<ReadRule>& rules, GraphBuilder& b, const Node& node) {
  for (const ReadRule& rule : rules)
    if (const Answer answer = rule.apply(b, node)) return answer;
  return std::nullopt;
}

}  // namespace

const std::span<const AlgebraRule> kAlgebraRules = kRules;

std::optional<Value> apply(const AlgebraRule& rule, GraphBuilder& b, const Node& node) {
  const std::optional<Opcode> root = root_of(rule);
  const bool is_for = root ? *root == node.op : info(node.op).family == Family::Reduce;
  return is_for ? ReadRule(rule).apply(b, node) : std::nullopt;
}

std::optional<Value> apply_first(GraphBuilder& b, const Node& node) {
  static const ReadTable* const table = new ReadTable;  // threads may compile at exit
  const auto found = table->by_operation.find(node.op);
  if (found != table->by_operation.end())
    if (const Answer answer = first_of(found->second, b, node)) return answer;
  return info(node.op).family == Family::Reduce ? first_of(table->of_reductions, b, node)
                                                : std::nullopt;
}

}  // namespace pto
