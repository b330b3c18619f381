// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/inline_tile_operations.hpp"

#include "pto/ir/tile_operation.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

Hints named(const Node& node) {
  std::vector<Hint> hints = node.hints ? *node.hints : std::vector<Hint>{};
  hints.push_back({"tile_op", {}, node.attributes.name});
  return std::make_shared<const std::vector<Hint>>(std::move(hints));
}

std::optional<Value> inline_node(GraphBuilder& b, const Node& node) {
  if (node.op != Opcode::tile || !node.has_body()) return std::nullopt;
  b.set_hints(named(node));
  return inline_tile(b, node.body(), node.operands);
}

}  // namespace

Graph inline_tile_operations(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, inline_node, notes);
}

}  // namespace pto
