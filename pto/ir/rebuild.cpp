// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/rebuild.hpp"

namespace pto {

Graph rebuild(const Graph& graph, const std::vector<Value>& outputs, const MakeNode& make,
              const std::function<bool(const Guard&)>& keep) {
  GraphBuilder b(graph.name());
  std::vector<Value> place;
  for (Value old = 0; static_cast<size_t>(old) < graph.nodes().size(); ++old) {
    Node node = graph[old];
    for (Value& v : node.operands) v = place[static_cast<size_t>(v)];
    b.clear_location();
    if (!node.locations.empty()) b.set_location(node.locations[0]);
    b.set_hints(node.hints);
    const std::optional<Value> v = make(b, node, old);
    PTO_ASSERT(!v || b.type(*v) == node.type);
    if (v) b.add_locations(*v, node.locations);
    place.push_back(v.value_or(-1));
  }
  for (const Guard& guard : graph.guards()) {
    if (keep && !keep(guard)) continue;
    b.set_location(guard.location);
    b.guard_equal(guard.a, guard.b, guard.because, guard.kind);
  }
  b.clear_location();
  b.set_hints({});
  for (const Value v : outputs) b.output(place[static_cast<size_t>(v)]);
  return b.build();
}

std::set<int64_t> symbols_of(const Node& node) {
  std::set<int64_t> symbols;
  const auto note = [&](const Dim& dim) {
    each_symbol(dim, [&](int64_t s) { symbols.insert(s); });
  };
  for (const Dim& dim : node.type.shape) note(dim);
  note(node.attributes.size);
  for (const auto& body : node.attributes.bodies)
    for (const Node& inner : body->nodes()) symbols.merge(symbols_of(inner));
  return symbols;
}

std::vector<bool> needed_nodes(const Graph& graph, const std::vector<Value>& roots) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Value v : roots) needed[static_cast<size_t>(v)] = true;
  std::set<int64_t> symbols;  // of the sizes of needed nodes, their bodies and all guards
  for (const Guard& guard : graph.guards())
    for (const Dim* dim : {&guard.a, &guard.b})
      each_symbol(*dim, [&](int64_t s) { symbols.insert(s); });
  for (size_t i = needed.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (node.op == Opcode::size && symbols.count(node.attributes.size.value()) != 0)
      needed[i] = true;
    if (!needed[i]) continue;
    symbols.merge(symbols_of(node));
    for (const Value v : node.operands) needed[static_cast<size_t>(v)] = true;
  }
  return needed;
}

Node with_bodies(Node node, const std::function<Graph(const Graph&)>& change) {
  for (auto& body : node.attributes.bodies) body = std::make_shared<const Graph>(change(*body));
  return node;
}

}  // namespace pto
