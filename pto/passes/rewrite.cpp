// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/rewrite.hpp"

#include <algorithm>

#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

Graph rewrite_once(const Graph& graph, const Rule& rule, PassNotes* notes) {
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value) {
    const Node node = with_bodies(old, [&](const Graph& body) {
      PassNotes inner;
      Graph rewritten = rewrite(body, rule, &inner);
      notes->is_finished = notes->is_finished && inner.is_finished;
      notes->walks = std::max(notes->walks, inner.walks);
      return rewritten;
    });
    const std::optional<Value> replacement = rule(b, node);
    return replacement ? replacement : b.copy(node, node.operands);
  });
}

}  // namespace

Graph rewrite(const Graph& graph, const Rule& rule, PassNotes* notes) {
  constexpr int kMostWalks = 16;  // a rule that never ends is a mistake, but no reason to hang
  PassNotes own;
  PassNotes& told = notes == nullptr ? own : *notes;
  Graph now = graph;
  for (int walk = 1; walk <= kMostWalks; ++walk) {
    told.is_finished = true;
    told.walks = std::max(told.walks, walk);
    Graph next = rewrite_once(now, rule, &told);
    if (next == now) return next;
    now = std::move(next);
  }
  told.is_finished = false;
  return now;
}

std::optional<std::variant<double, int64_t>> constant_of(const GraphBuilder& b, Value v) {
  while (b.node(v).op == Opcode::broadcast) v = b.node(v).operands[0];
  if (b.node(v).op != Opcode::constant) return std::nullopt;
  return b.node(v).attributes.value;
}

}  // namespace pto
