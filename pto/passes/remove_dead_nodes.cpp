// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/remove_dead_nodes.hpp"

namespace pto {

Graph remove_dead_nodes(const Graph& graph) {
  const size_t size = graph.nodes().size();
  std::vector<bool> needed(size, false);
  for (const Value v : graph.inputs()) needed[static_cast<size_t>(v)] = true;
  for (const Value v : graph.outputs()) needed[static_cast<size_t>(v)] = true;
  for (size_t i = size; i-- > 0;)
    for (const Value v : graph.nodes()[i].operands)
      if (needed[i]) needed[static_cast<size_t>(v)] = true;
  GraphBuilder b(graph.name());
  std::vector<Value> place(size);
  for (size_t i = 0; i < size; ++i) {
    if (!needed[i]) continue;
    Node node = graph.nodes()[i];
    for (Value& v : node.operands) v = place[static_cast<size_t>(v)];
    if (node.attributes.body != nullptr)
      node.attributes.body =
          std::make_shared<const Graph>(remove_dead_nodes(*node.attributes.body));
    place[i] = b.copy(node, node.operands);
  }
  for (const Guard& guard : graph.guards()) {
    b.set_location(guard.location);
    b.guard_equal(guard.a, guard.b, guard.because);
  }
  for (const Value v : graph.outputs()) b.output(place[static_cast<size_t>(v)]);
  return b.build();
}

}  // namespace pto
