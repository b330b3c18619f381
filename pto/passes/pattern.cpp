// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/pattern.hpp"

#include <cctype>
#include <cmath>
#include <string>

#include "pto/base/text.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

bool is_number(const GraphBuilder& b, Value value, double number) {
  const auto constant = constant_of(b, value);
  if (!constant) return false;
  if (const auto* integer = std::get_if<int64_t>(&*constant))
    return static_cast<double>(*integer) == number;
  const double real = std::get<double>(*constant);
  return real == number && std::signbit(real) == std::signbit(number);
}

Value constant_like(GraphBuilder& b, double number, DType dtype) {
  return is_float(dtype) ? b.constant(number, dtype)
                         : b.constant(static_cast<int64_t>(number), dtype);
}

}  // namespace

bool is_rounding(Opcode op) { return operation(op).facts.gives_whole_numbers; }

Pattern::Pattern(std::string_view text) {
  size_t at = 0;
  root_ = parse(text, &at);
  PTO_ASSERT(at == text.size());
}

// Reads "name(part, part)", a letter, or a number; returns the part's place.
size_t Pattern::parse(std::string_view text, size_t* at) {
  const size_t end = std::min(text.find_first_of("(,) ", *at), text.size());
  const std::string_view word = text.substr(*at, end - *at);
  *at = end;
  Part part{Part::Variable, {}, 'x', 0, {}};
  if (end < text.size() && text[end] == '(') {
    const std::optional<Opcode> op = parse_opcode(word);
    PTO_ASSERT(op.has_value());
    part.kind = Part::Operation;
    part.op = *op;
    for (++*at;; *at += 2) {  // behind "(" or ", "
      part.operands.push_back(parse(text, at));
      if (*at >= text.size() || text[*at] != ',') break;
    }
    PTO_ASSERT(*at < text.size() && text[*at] == ')');
    ++*at;
  } else if (const std::optional<double> number = parse_double(word)) {
    part.kind = Part::Number;
    part.number = *number;
  } else {
    PTO_ASSERT(word.size() == 1 && std::islower(static_cast<unsigned char>(word[0])) != 0);
    part.variable = word[0];
  }
  parts_.push_back(std::move(part));
  return parts_.size() - 1;
}

bool Pattern::matches(const GraphBuilder& b, const Node& node, Bindings* bound) const {
  const Part& root = parts_[root_];
  return root.kind == Part::Operation && root.op == node.op &&
         operands_match(b, root_, node, bound);
}

bool Pattern::operands_match(const GraphBuilder& b, size_t part, const Node& node,
                             Bindings* bound) const {
  const std::vector<size_t>& operands = parts_[part].operands;
  if (operands.size() != node.operands.size()) return false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!part_matches(b, operands[i], node.operands[i], bound)) return false;
  return true;
}

bool Pattern::part_matches(const GraphBuilder& b, size_t part, Value value, Bindings* bound) const {
  const Part& wanted = parts_[part];
  const Node& node = b.node(value);
  switch (wanted.kind) {
    case Part::Number:
      return is_number(b, value, wanted.number);
    case Part::Operation:
      return node.op == wanted.op && operands_match(b, part, node, bound);
    case Part::Variable:
      break;
  }
  if (wanted.variable == 'r' && !is_rounding(node.op)) return false;
  Value& known = (*bound)[wanted.variable];
  if (known < 0) known = value;
  return known == value;
}

Value Pattern::build(GraphBuilder& b, const Bindings& bound) const {
  return build_part(b, root_, bound);
}

// A number has the type of the other operands; the condition of `where` is a bool.
Value Pattern::build_part(GraphBuilder& b, size_t part, const Bindings& bound) const {
  const Part& made = parts_[part];
  if (made.kind == Part::Variable) return bound[made.variable];
  std::vector<Value> operands(made.operands.size(), -1);
  DType dtype = DType::Bool;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (parts_[made.operands[i]].kind == Part::Number) continue;
    operands[i] = build_part(b, made.operands[i], bound);
    dtype = b.type(operands[i]).dtype;
  }
  const bool selects = made.op == Opcode::where;
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i] < 0)
      operands[i] = constant_like(b, parts_[made.operands[i]].number,
                                  selects && i == 0 ? DType::Bool : dtype);
  if (selects) return b.where(operands[0], operands[1], operands[2]);
  return operands.size() == 1 ? b.unary(made.op, operands[0])
                              : b.binary(made.op, operands[0], operands[1]);
}

}  // namespace pto
