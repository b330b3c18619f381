// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/late_reads.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/passes/cut_points.hpp"

namespace pto {
namespace {

constexpr int kNever = 1 << 30;
constexpr int kManyOperations = 8;  // take more than to read their result

// Says whether a shape has each axis of another one: sizes with two names may be equal.
bool has_all_axes(const Dims& shape, const Dims& whole) {
  return std::equal(shape.begin(), shape.end(), whole.begin(), whole.end(),
                    [](const Dim& a, const Dim& b) { return is_one(a) == is_one(b); });
}

}  // namespace

LateReads::LateReads(const Graph& graph, const StepNodes& steps)
    : graph_(graph),
      steps_(steps),
      stage_(graph.nodes().size()),
      first_use_(graph.nodes().size(), kNever) {
  const auto stage = [&](Value v) -> int& { return stage_[static_cast<size_t>(v)]; };
  const auto first_use = [&](Value v) -> int& { return first_use_[static_cast<size_t>(v)]; };
  const auto count = static_cast<Value>(graph.nodes().size());
  for (Value v = 0; v < count; ++v)
    for (const Value operand : graph[v].operands)
      stage(v) = std::max(stage(v), stage(operand) + (steps.has(v) && !is_made(operand)));
  for (const Value root : steps.roots()) first_use(root) = stage(root);
  for (Value v = count - 1; v >= 0; --v)
    for (const Value operand : graph[v].operands)
      first_use(operand) =
          std::min(first_use(operand), steps.has(v) ? stage(operand) : first_use(v));
  for (const Value root : steps.roots())
    if (is_worth_reading(root)) worth_.insert(root);
}

bool LateReads::any() const {
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    for (const Value operand : graph_[v].operands)
      if (!is_made(v) && reads(first_use(v), operand)) return true;
  return false;
}

// Two values of its size in memory, or many operations, take more than to read the one.
bool LateReads::is_worth_reading(Value root) const {
  std::set<Value> seen;
  std::vector<Value> todo = {root};
  int whole = 0, operations = 0;
  while (!todo.empty()) {
    const Value v = todo.back();
    todo.pop_back();
    if (!seen.insert(v).second) continue;
    if (v != root && (is_made(v) || worth_.count(v) != 0)) {
      whole += has_all_axes(graph_[v].type.shape, graph_[root].type.shape);
    } else {
      operations += !belongs_to_readers(graph_, graph_[v]);
      todo.insert(todo.end(), graph_[v].operands.begin(), graph_[v].operands.end());
    }
    if (whole >= 2 || operations >= kManyOperations) return true;
  }
  return false;
}

}  // namespace pto
