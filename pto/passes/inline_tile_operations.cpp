// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/inline_tile_operations.hpp"

#include "pto/ir/tile_operation.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

std::optional<Value> inline_node(GraphBuilder& b, const Node& node) {
  if (node.op != Opcode::tile || !node.has_body()) return std::nullopt;
  b.set_hints(with_hint(node.hints, {"tile_op", {}, node.attributes.name}));
  return inline_tile(b, node.body(), node.operands);
}

}  // namespace

Graph inline_tile_operations(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, inline_node, notes);
}

}  // namespace pto
