// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/fold_constants.hpp"

#include "pto/ir/element.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

ElementNumber number_of(const Attributes& attributes) {
  if (const auto* real = std::get_if<double>(&attributes.value)) return {*real, 0};
  return {0, std::get<int64_t>(attributes.value)};
}

std::optional<Value> fold_node(GraphBuilder& b, const Node& node) {
  if (!is_elementwise(node.op) || node.op == Opcode::tile) return std::nullopt;
  std::vector<ElementNumber> x;
  for (const Value v : node.operands) {
    if (b.node(v).op != Opcode::constant) return std::nullopt;
    x.push_back(number_of(b.node(v).attributes));
  }
  const DType from = b.type(node.operands[node.op == Opcode::where ? 1 : 0]).dtype;
  const ElementNumber value = evaluate_element(node.op, from, node.type.dtype, x).number;
  if (is_float(node.type.dtype)) return b.constant(value.real, node.type.dtype);
  return b.constant(value.integer, node.type.dtype);
}

}  // namespace

Graph fold_constants(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, fold_node, notes);
}

}  // namespace pto
