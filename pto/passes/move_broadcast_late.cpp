// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/move_broadcast_late.hpp"

#include <algorithm>

#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

// Returns the shape to which the broadcasts' sources meet; nothing where that needs an equality
// that only a guard knows, or saves nothing.
std::optional<Dims> small_shape(const GraphBuilder& b, const Node& node) {
  Dims shape;
  for (const Value v : node.operands) {
    if (b.node(v).op != Opcode::broadcast) return std::nullopt;
    const Dims& source = b.type(b.node(v).operands[0]).shape;
    std::vector<std::pair<Dim, Dim>> equal;
    shape = broadcast_shape(shape, source, &equal);
    if (!equal.empty()) return std::nullopt;
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim &small = shape[shape.size() - 1 - i],
              &large = node.type.shape[node.type.shape.size() - 1 - i];
    if (small != large && small != Dim(1)) return std::nullopt;
  }
  return shape == node.type.shape ? std::nullopt : std::optional(shape);
}

std::optional<Value> move_node(GraphBuilder& b, const Node& node) {
  if (!is_elementwise(node.op)) return std::nullopt;
  const std::optional<Dims> shape = small_shape(b, node);
  if (!shape) return std::nullopt;
  std::vector<Value> operands;
  for (const Value v : node.operands)
    operands.push_back(b.broadcast(b.node(v).operands[0], *shape));
  return b.broadcast(b.copy(node, operands), node.type.shape);
}

}  // namespace

Graph move_broadcast_late(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, move_node, notes);
}

}  // namespace pto
