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
  for (const Value v : outputs) b.output(place[static_cast<size_t>(v)]);
  return b.build();
}

std::vector<bool> needed_nodes(const Graph& graph, const std::vector<Value>& roots) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Value v : roots) needed[static_cast<size_t>(v)] = true;
  for (size_t i = needed.size(); i-- > 0;)
    for (const Value v : graph.nodes()[i].operands)
      if (needed[i]) needed[static_cast<size_t>(v)] = true;
  return needed;
}

}  // namespace pto
