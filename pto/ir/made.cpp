// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/made.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {

bool makes_tensors(Opcode op) {
  return operation(op).kernel == KernelForm::Step || op == Opcode::fused;
}

bool only_moves(Opcode op) {
  const KernelForm form = operation(op).kernel;
  return form == KernelForm::Part || form == KernelForm::Moved;
}

namespace {

// Returns the input that an output of a body goes on from, or is; -1 where there is none.
int origin_of(const Graph& body, size_t output) {
  Value v = body.outputs()[output];
  while (!body[v].is_parameter()) {
    const Made made = made_by(body, v);
    const int start = made.node < 0 ? -1 : start_of(body, made);
    if (start < 0) return -1;
    v = body[made.node].operands[static_cast<size_t>(start)];
  }
  const auto at = std::find(body.inputs().begin(), body.inputs().end(), v);
  return static_cast<int>(at - body.inputs().begin());
}

}  // namespace

size_t operands_ahead(const Node& node) {
  return node.op == Opcode::loop ? 2 : node.op == Opcode::branch ? 1 : 0;
}

size_t first_carried(const Node& node) { return node.op == Opcode::loop ? 3 : 0; }

int start_of(const Graph& graph, Made made) {
  const Node& node = graph[made.node];
  const bool is_scatter = node.op == Opcode::scatter || node.op == Opcode::scatter_add;
  if (node.op == Opcode::update || is_scatter) return 0;
  if (node.op == Opcode::loop || node.op == Opcode::repeat)
    return static_cast<int>(first_carried(node)) + made.index;
  if (node.op != Opcode::branch) return -1;
  const auto k = static_cast<size_t>(made.index);
  const int one = origin_of(node.body(0), k), other = origin_of(node.body(1), k);
  if (one < 0 || one != other) return -1;
  for (size_t before = 0; before < k; ++before)  // an input serves one result
    if (origin_of(node.body(0), before) == one) return -1;
  const bool fits = node.body(0)[node.body(0).outputs()[k]].type ==
                    node.body(0)[node.body(0).inputs()[static_cast<size_t>(one)]].type;
  return fits ? 1 + one : -1;
}

Made made_by(const Graph& graph, Value v) {
  const Node& node = graph[v];
  if (node.op == Opcode::result) return {node.operands[0], static_cast<int>(node.attributes.index)};
  return makes_tensors(node.op) ? Made{v, 0} : Made{};
}

Value reshaped_from(const Graph& graph, Value v) {
  while (graph[v].op == Opcode::reshape && !is_number(graph[v].type)) v = graph[v].operands[0];
  return v;
}

}  // namespace pto
