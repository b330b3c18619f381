// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/loop_nest.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"
#include "pto/ir/parallel_loop.hpp"

namespace pto {

bool counts_by_one(const Graph& graph, const Node& loop) {
  return whole_number(graph[loop.operands[0]]) == 0 && whole_number(graph[loop.operands[2]]) == 1;
}

std::optional<Dim> stop_of(const Graph& graph, const Node& loop) {
  const Node& stop = graph[loop.operands[1]];
  if (stop.op == Opcode::extent) return stop.attributes.size;
  const int64_t number = whole_number(stop).value_or(0);
  return number > 0 ? std::optional(Dim(number)) : std::nullopt;
}

LoopNest::LoopNest(const Graph& graph, Value v, const Node& loop) : body_(loop.body()) {
  int bodies = 0;
  for (Value at = 0; at < static_cast<Value>(body_.nodes().size()); ++at) {
    if (!body_[at].has_body() || body_[at].op == Opcode::tile) continue;
    ++bodies;
    if (body_[at].op == Opcode::loop) inner_ = at;
  }
  if (inner_ < 0) return;
  mark_values();
  find_side_by_side();
  if (!pays()) return;
  obstacle_ =
      bodies > 1 ? "its body has other loops or branches beside it" : find_obstacle(graph, v, loop);
}

std::string LoopNest::find_obstacle(const Graph& graph, Value v, const Node& loop) {
  const Node& inner = inner_loop();
  LoopObstacle outer;
  if (!writes_apart(graph, v, &outer)) return outer.why;
  if (writes_apart(body_, inner_) || find_hint(inner, "any_step"))
    return "iterations of the inner loop run side by side";
  if (!counts_by_one(graph, loop)) return "it does not count from 0 by 1";
  const std::optional<Dim> stop = stop_of(graph, loop);
  if (!stop) return "its number of iterations comes from data";
  size_ = *stop;
  for (size_t i = 0; i < first_carried(inner); ++i)
    if (has(inner.operands[i], kIndex | kWritten))
      return "the number of iterations of the inner loop depends on its index";
  for (const Value operand : inner.operands)
    if (has(operand, kWritten)) return "the inner loop reads what it writes";
  if (std::any_of(body_.nodes().begin(), body_.nodes().end(),
                  [](const Node& node) { return node.op == Opcode::size; }))
    return "its body takes a size from data";
  std::set<Value> seen;
  for (const Value out : body_.outputs()) keep(out, &seen);
  for (size_t i = first_carried(inner) + carried(); i < inner.operands.size(); ++i)
    keep(inner.operands[i], &seen);
  if (std::any_of(kept_.begin(), kept_.end(), [&](Value one) { return has(one, kWritten); }))
    return "it reads what it writes in front of the inner loop";
  return "";
}

void LoopNest::mark_values() {
  const size_t count = body_.nodes().size(), written = body_.outputs().size();
  flags_.assign(count, 0), is_cheap_.assign(count, false);
  const auto& inputs = body_.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    flags_[static_cast<size_t>(inputs[i])] = i == 0 ? kIndex : i <= written ? kWritten : kOuter;
    is_cheap_[static_cast<size_t>(inputs[i])] = true;
  }
  for (Value v = 0; v < static_cast<Value>(count); ++v) {
    const Node& node = body_[v];
    if (node.is_parameter()) continue;
    bool are_cheap = true;
    unsigned& flags = flags_[static_cast<size_t>(v)];
    for (const Value operand : node.operands) {
      flags |= flags_[static_cast<size_t>(operand)];
      are_cheap = are_cheap && is_cheap_[static_cast<size_t>(operand)];
    }
    if (v == inner_) flags |= kInner;
    const bool is_simple = only_moves(node.op) || node.op == Opcode::constant ||
                           node.op == Opcode::extent ||
                           (is_elementwise(node.op) && is_number(node.type));
    is_cheap_[static_cast<size_t>(v)] = are_cheap && is_simple;
  }
}

// Notes what has to be kept of the values that v needs, from the inner loop on.
void LoopNest::keep(Value v, std::set<Value>* seen) {
  if (v == inner_ || !seen->insert(v).second) return;
  if (has(v, kInner)) {
    for (const Value operand : body_[v].operands) keep(operand, seen);
  } else if (!is_cheap_[static_cast<size_t>(v)]) {
    kept_.insert(v);
  }
}

void LoopNest::find_side_by_side() {
  const Node& inner = inner_loop();
  const Graph& graph = inner.body();
  const size_t ahead = operands_ahead(inner), last_carried = carried();
  std::vector<unsigned> flags(graph.nodes().size());
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value outer = inner.operands[i + ahead];
    unsigned& flag = flags[static_cast<size_t>(graph.inputs()[i])];
    flag = i == 0 ? kInner : i <= last_carried ? kWritten : flags_[static_cast<size_t>(outer)];
    if (i > last_carried && !body_[outer].is_parameter()) flag &= ~kOuter;
  }
  for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v) {
    const Node& node = graph[v];
    for (const Value operand : node.operands)
      flags[static_cast<size_t>(v)] |= flags[static_cast<size_t>(operand)];
    if (node.op == Opcode::view && is_side_by_side(node, flags)) parts_.insert(v);
  }
}

// `flags`: of the values of the inner loop's body; kOuter of what is given to the outer loop.
bool LoopNest::is_side_by_side(const Node& view, const std::vector<unsigned>& flags) const {
  const auto flag = [&](size_t operand) {
    return flags[static_cast<size_t>(view.operands[operand])];
  };
  if (flag(0) != kOuter) return false;
  bool moves = false, has_rows = false, is_beside = false;
  for (size_t axis = 0; axis < view.type.shape.size(); ++axis) {
    moves = moves || (flag(axis + 1) & kInner);
    is_beside = is_beside || (has_rows && (flag(axis + 1) & kIndex));
    has_rows = has_rows || !is_one(view.type.shape[axis]);
  }
  return moves && is_beside;
}

}  // namespace pto
