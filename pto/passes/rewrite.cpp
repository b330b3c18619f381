// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/rewrite.hpp"

#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

Graph rewrite_once(const Graph& graph, const Rule& rule) {
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value) {
    Node node = old;
    if (node.attributes.body != nullptr)
      node.attributes.body = std::make_shared<const Graph>(rewrite(*node.attributes.body, rule));
    const std::optional<Value> replacement = rule(b, node);
    return replacement ? replacement : b.copy(node, node.operands);
  });
}

}  // namespace

Graph rewrite(const Graph& graph, const Rule& rule) {
  constexpr int kMostWalks = 16;  // a rule that never ends is a mistake, but no reason to hang
  Graph now = graph;
  for (int i = 0; i < kMostWalks; ++i) {
    Graph next = rewrite_once(now, rule);
    if (next == now) return next;
    now = std::move(next);
  }
  return now;
}

std::optional<std::variant<double, int64_t>> constant_of(const GraphBuilder& b, Value v) {
  while (b.node(v).op == Opcode::broadcast) v = b.node(v).operands[0];
  if (b.node(v).op != Opcode::constant) return std::nullopt;
  return b.node(v).attributes.value;
}

}  // namespace pto
