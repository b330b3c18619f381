// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/late_reads.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/passes/cut_points.hpp"

namespace pto {
namespace {

constexpr int kNever = 1 << 30;

// Says whether a shape has each axis of another one: sizes with two names may be equal.
bool has_all_axes(const Dims& shape, const Dims& whole) {
  return std::equal(shape.begin(), shape.end(), whole.begin(), whole.end(),
                    [](const Dim& a, const Dim& b) { return is_one(a) == is_one(b); });
}

}  // namespace

LateReads::LateReads(const Graph& graph, const StepNodes& steps)
    : graph_(graph), steps_(steps), first_use_(graph.nodes().size(), kNever) {
  const auto count = static_cast<Value>(graph.nodes().size());
  std::vector<int> stage(graph.nodes().size());  // the steps in a row that lie before a value
  const auto stage_of = [&](Value v) -> int& { return stage[static_cast<size_t>(v)]; };
  const auto first = [&](Value v) -> int& { return first_use_[static_cast<size_t>(v)]; };
  for (Value v = 0; v < count; ++v)
    for (const Value operand : graph[v].operands)
      stage_of(v) = std::max(stage_of(v), stage_of(operand) + (steps.has(v) && !is_made(operand)));
  for (const Value root : steps.roots()) first(root) = stage_of(root);
  for (Value v = count - 1; v >= 0; --v)
    for (const Value operand : graph[v].operands)
      first(operand) = std::min(first(operand), steps.has(v) ? stage_of(operand) : first(v));

  const std::set<Value> roots(steps.roots().begin(), steps.roots().end());
  std::set<Value> read_later;
  for (Value v = 0; v < count; ++v)
    for (const Value operand : graph[v].operands)
      if (!is_made(v) && first(v) > first(operand)) read_later.insert(operand);
  for (const Value v : read_later) {
    if (is_made(v) || (roots.count(v) == 0 && belongs_to_readers(graph, graph[v]))) continue;
    if (roots.count(v) != 0 ? takes_more(v, 1, 7) : takes_more(v, 2, 15)) worth_.insert(v);
  }
}

bool LateReads::any() const {
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    for (const Value operand : graph_[v].operands)
      if (!is_made(v) && reads(first_use(v), operand)) return true;
  return false;
}

// Says whether a value is computed from more values of its size in memory, or by more operations.
// A reduction lies in memory, too.
bool LateReads::takes_more(Value v, int whole_values, int operations) const {
  std::set<Value> seen;
  std::vector<Value> todo = {v};
  while (!todo.empty() && whole_values >= 0 && operations >= 0) {
    const Value one = todo.back();
    todo.pop_back();
    if (!seen.insert(one).second) continue;
    const Node& node = graph_[one];
    const bool is_read =
        is_made(one) || worth_.count(one) != 0 || info(node.op).family == Family::Reduce;
    if (one != v && is_read) {
      whole_values -= has_all_axes(node.type.shape, graph_[v].type.shape);
    } else {
      operations -= !belongs_to_readers(graph_, node);
      todo.insert(todo.end(), node.operands.begin(), node.operands.end());
    }
  }
  return whole_values < 0 || operations < 0;
}

}  // namespace pto
