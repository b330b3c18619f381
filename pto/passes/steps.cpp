// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/steps.hpp"

#include <algorithm>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/passes/turned_axes.hpp"

namespace pto {
namespace {

bool is_move(Opcode op) {
  return op == Opcode::transpose || op == Opcode::reshape || op == Opcode::broadcast;
}

// Says whether a number needs no kernel: it is known, comes from numbers, or lies in memory.
bool is_arithmetic(const Graph& graph, const Node& node) {
  if (node.op == Opcode::constant || node.op == Opcode::reshape) return true;
  return is_elementwise(node.op) &&
         std::all_of(node.operands.begin(), node.operands.end(),
                     [&](Value operand) { return is_number(graph[operand].type); });
}

}  // namespace

bool repeats_in_matrix(const Graph& graph, const Node& node) {
  if (node.op != Opcode::broadcast) return false;
  const Dims &from = graph[node.operands[0]].type.shape, &to = node.type.shape;
  for (size_t i = 1; i <= std::min<size_t>(2, to.size()); ++i)
    if (!is_one(to[to.size() - i]) && (i > from.size() || is_one(from[from.size() - i])))
      return true;
  return false;
}

bool is_gathered_in_kernel(const Node& node) {
  return node.op == Opcode::gather && find_hint(node, "in_kernel") != nullptr;
}

bool is_extent(const Graph& graph, const Node& node) {
  return node.op == Opcode::reshape && node.type == Type{DType::I64, {}} &&
         is_count(graph, graph[node.operands[0]]);
}

StepNodes::StepNodes(const Graph& graph, bool is_body, const std::vector<bool>& is_kept)
    : graph_(graph), any_(is_body), is_step_(graph.nodes().size()), is_root_(graph.nodes().size()) {
  for (size_t i = 0; i < is_step_.size(); ++i) {
    const Node& node = graph.nodes()[i];
    const Opcode of = node.op == Opcode::result ? graph[node.operands[0]].op : node.op;
    const KernelForm form = operation(of).kernel;
    const bool is_statement =
        form == KernelForm::Step || form == KernelForm::Part || form == KernelForm::Number;
    const bool stands_apart = is_statement && !is_gathered_in_kernel(node);
    is_step_[i] = stands_apart || regroups(graph, node) || (!is_kept.empty() && is_kept[i]);
    any_ = any_ || is_step_[i];
  }
  for (const Value v : graph.outputs()) any_ = any_ || is_turned(graph[v]);
  if (!any_) return;
  for (Value v = 0; static_cast<size_t>(v) < is_step_.size(); ++v)
    if (has(v)) demand(graph[v]);
  for (const Value v : graph.outputs())
    is_number(graph[v].type) ? demand_number(v) : demand_tensor(v, is_turned(graph[v]));
  std::sort(roots_.begin(), roots_.end());
}

bool StepNodes::is_made(Value v) const { return graph_[v].is_parameter() || has(v); }

void StepNodes::demand(const Node& step) {
  const bool may_alias = step.op == Opcode::matmul || is_move(step.op);
  for (const Value v : step.operands) {
    const bool is_copied = step.op == Opcode::concat && is_turned(graph_[v]);
    const bool is_known = step.op == Opcode::size && graph_[v].op == Opcode::constant;
    is_known || is_number(graph_[v].type) ? demand_number(v)
                                          : demand_tensor(v, may_alias || is_copied);
  }
}

void StepNodes::demand_number(Value v) {
  const Node& node = graph_[v];
  if (is_made(v) || is_root_[static_cast<size_t>(v)]) return;
  if (!is_arithmetic(graph_, node)) return add_root(v);
  is_step_[static_cast<size_t>(v)] = true;
  if (!is_extent(graph_, node)) demand(node);
}

void StepNodes::demand_tensor(Value v, bool may_alias) {
  const Node& node = graph_[v];
  if (is_made(v) || is_root_[static_cast<size_t>(v)]) return;
  const Node* bottom = &node;
  Value lowest = v;
  bool repeats = false;
  while (is_move(bottom->op) && !is_made(lowest)) {
    repeats = repeats || repeats_in_matrix(graph_, *bottom);
    bottom = &graph_[lowest = bottom->operands[0]];
  }
  const bool aliases = is_move(node.op) && !repeats && (may_alias || is_made(lowest));
  if (!aliases || bottom->op == Opcode::constant) return add_root(v);
  is_step_[static_cast<size_t>(v)] = true;
  demand_tensor(node.operands[0], may_alias);
}

void StepNodes::add_root(Value v) {
  if (is_made(v) || is_root_[static_cast<size_t>(v)]) return;
  is_root_[static_cast<size_t>(v)] = true;
  roots_.push_back(v);
}

}  // namespace pto
