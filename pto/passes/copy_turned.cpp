// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/copy_turned.hpp"

#include <map>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/passes/steps.hpp"
#include "pto/passes/turned_axes.hpp"

namespace pto {
namespace {

bool is_in_kernels(Opcode op) {
  const KernelForm form = operation(op).kernel;
  return form == KernelForm::Element || form == KernelForm::Reduction;
}

// Says of each value whether a kernel reads it, at once or in another shape.
std::vector<bool> read_by_kernels(const Graph& graph) {
  std::vector<bool> found(graph.nodes().size());
  for (Value v = static_cast<Value>(graph.nodes().size()); v-- > 0;) {
    const Node& node = graph[v];
    const bool passes_on = (node.op == Opcode::broadcast || node.op == Opcode::reshape) &&
                           !regroups(graph, node) && found[static_cast<size_t>(v)];
    if (!passes_on && !is_in_kernels(node.op)) continue;
    for (const Value operand : node.operands) found[static_cast<size_t>(operand)] = true;
  }
  return found;
}

// Says whether a reshape makes other axes of those of a transpose, or of a broadcast that a copy
// repeats in blocks.
bool regroups_moved(const Graph& graph, Value reshape) {
  const Node& moved = graph[graph[reshape].operands[0]];
  if (moved.op == Opcode::transpose) return !keeps_order(moved.type.shape, moved.attributes.axes);
  return moved.op == Opcode::broadcast && !repeats_in_matrix(graph, moved);
}

}  // namespace

Graph copy_turned(const Graph& graph) {
  const std::vector<bool> is_read = read_by_kernels(graph);
  std::map<Value, Value> copies;  // of values of the new graph
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
    Node node = with_bodies(old, copy_turned);
    const bool passes_on = only_moves(node.op) && is_read[static_cast<size_t>(v)];
    const bool is_regrouped = regroups(graph, graph[v]);
    if (!passes_on && !is_regrouped && !is_in_kernels(node.op)) return b.copy(node, node.operands);
    for (Value& operand : node.operands) {
      const Node& read = b.node(operand);
      const bool is_copied = is_regrouped ? regroups_moved(graph, v) : is_turned(read);
      if (!is_copied) continue;
      const auto known = copies.find(operand);
      operand = known != copies.end() ? known->second : copies[operand] = b.concat({operand}, 0);
    }
    return b.copy(node, node.operands);
  });
}

}  // namespace pto
