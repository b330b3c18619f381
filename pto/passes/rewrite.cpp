// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

Graph rewrite_once(const Graph& graph, const Rule& rule) {
  GraphBuilder b(graph.name());
  std::vector<Value> place;
  for (const Node& old : graph.nodes()) {
    Node node = old;
    for (Value& v : node.operands) v = place[static_cast<size_t>(v)];
    if (node.attributes.body != nullptr)
      node.attributes.body = std::make_shared<const Graph>(rewrite(*node.attributes.body, rule));
    b.clear_location();
    if (!node.locations.empty()) b.set_location(node.locations[0]);
    const std::optional<Value> replacement = rule(b, node);
    const Value v = replacement ? *replacement : b.copy(node, node.operands);
    PTO_ASSERT(b.type(v) == node.type);
    b.add_locations(v, node.locations);
    place.push_back(v);
  }
  for (const Guard& guard : graph.guards()) {
    b.set_location(guard.location);
    b.guard_equal(guard.a, guard.b, guard.because);
  }
  b.clear_location();
  for (const Value v : graph.outputs()) b.output(place[static_cast<size_t>(v)]);
  return b.build();
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
