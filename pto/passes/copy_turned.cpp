// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/copy_turned.hpp"

#include <map>

#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"
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

}  // namespace

Graph copy_turned(const Graph& graph) {
  const std::vector<bool> is_read = read_by_kernels(graph);
  std::map<Value, Value> copies;  // of values of the new graph
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
    Node node = with_bodies(old, copy_turned);
    const bool passes_on = only_moves(node.op) && is_read[static_cast<size_t>(v)];
    if (!passes_on && !is_in_kernels(node.op)) return b.copy(node, node.operands);
    for (Value& operand : node.operands) {
      const Axes axes = turning_axes(b.node(operand));
      if (axes.empty() || keeps_order(b.type(operand).shape, axes)) continue;
      const auto known = copies.find(operand);
      operand = known != copies.end() ? known->second : copies[operand] = b.concat({operand}, 0);
    }
    return b.copy(node, node.operands);
  });
}

}  // namespace pto
