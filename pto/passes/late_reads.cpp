// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/late_reads.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/passes/cut_points.hpp"
#include "pto/passes/nest_keys.hpp"

namespace pto {
namespace {

constexpr int kNever = 1 << 30;

// Says whether a shape has each axis of another one: sizes with two names may be equal.
bool has_all_axes(const Dims& shape, const Dims& whole) {
  return std::equal(shape.begin(), shape.end(), whole.begin(), whole.end(),
                    [](const Dim& a, const Dim& b) { return is_one(a) == is_one(b); });
}

constexpr int kExpensive = 4;  // operations of a division or function

// Counts the operations of a node in a kernel over this shape.
int cost(const Graph& graph, const Node& node, const Dims& whole) {
  if (belongs_to_readers(graph, node)) return 0;
  const bool is_expensive = operation(node.op).facts.is_expensive;
  return is_expensive && has_all_axes(node.type.shape, whole) ? kExpensive : 1;
}

// Says whether a kernel ends with a reduction for those that need it elsewhere: numbers of elements
// are known in front of all.
bool ends_kernels(const Graph& graph, const Node& node) {
  return folds(graph, node) && !is_count(graph, node);
}

// The loop nest of reductions that a value is computed from in its stage.
struct Nest {
  enum class Kind { None, One, Several } kind = Kind::None;
  std::string key;

  void join(const Nest& other) {
    if (other.kind == Kind::None || (kind == Kind::One && other.key == key)) return;
    *this = kind == Kind::None ? other : Nest{Kind::Several, ""};
  }
};

// Returns for each value the kernels and steps in a row that end in front of the one it is in.
// Reductions are in one kernel where their loop nest is one.
std::vector<int> stages_of(const Graph& graph, const StepNodes& steps) {
  const NestKeys keys(graph);
  std::vector<int> stages(graph.nodes().size());
  std::vector<Nest> nests(graph.nodes().size());
  for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v) {
    int& stage = stages[static_cast<size_t>(v)];
    Nest& nest = nests[static_cast<size_t>(v)];
    for (const Value operand : graph[v].operands) {
      const bool is_made = graph[operand].is_parameter() || steps.has(operand);
      const int from = stages[static_cast<size_t>(operand)] + (steps.has(v) && !is_made);
      if (from > stage) nest = {};
      if (from >= stage) nest.join(nests[static_cast<size_t>(operand)]);
      stage = std::max(stage, from);
    }
    if (steps.has(v)) nest = {};
    if (nest.kind == Nest::Kind::Several) ++stage, nest = {};
    if (steps.has(v) || !ends_kernels(graph, graph[v])) continue;
    Nest own{Nest::Kind::One, keys.of(graph[v])};
    stage += nest.kind == Nest::Kind::One && nest.key != own.key;
    nest = std::move(own);
  }
  return stages;
}

}  // namespace

LateReads::LateReads(const Graph& graph, const StepNodes& steps)
    : graph_(graph), steps_(steps), first_use_(graph.nodes().size(), kNever) {
  const auto count = static_cast<Value>(graph.nodes().size());
  const std::vector<int> stages = stages_of(graph, steps);
  const auto stage_of = [&](Value v) { return stages[static_cast<size_t>(v)]; };
  const auto first = [&](Value v) -> int& { return first_use_[static_cast<size_t>(v)]; };
  for (const Value root : steps.any() ? steps.roots() : graph.outputs())
    first(root) = stage_of(root);
  for (Value v = count - 1; v >= 0; --v) {
    const bool has_own = steps.has(v) || ends_kernels(graph, graph[v]);
    for (const Value operand : graph[v].operands)
      first(operand) = std::min(first(operand), !has_own       ? first(v)
                                                : steps.has(v) ? stage_of(operand)
                                                               : stage_of(v));
  }

  const std::set<Value> roots(steps.roots().begin(), steps.roots().end());
  std::set<Value> read_later;
  for (Value v = 0; v < count; ++v)
    for (const Value operand : graph[v].operands)
      if (!is_made(v) && first(v) > first(operand)) read_later.insert(operand);
  for (const Value v : read_later) {
    if (is_made(v) || folds(graph, graph[v])) continue;
    if (roots.count(v) == 0 && belongs_to_readers(graph, graph[v])) continue;
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
      operations -= cost(graph_, node, graph_[v].type.shape);
      todo.insert(todo.end(), node.operands.begin(), node.operands.end());
    }
  }
  return whole_values < 0 || operations < 0;
}

}  // namespace pto
