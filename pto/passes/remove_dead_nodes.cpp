// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/remove_dead_nodes.hpp"

#include "pto/ir/rebuild.hpp"

namespace pto {

Graph remove_dead_nodes(const Graph& graph) {
  std::vector<Value> roots = graph.outputs();
  roots.insert(roots.end(), graph.inputs().begin(), graph.inputs().end());
  const std::vector<bool> needed = needed_nodes(graph, roots);
  return rebuild(graph, graph.outputs(),
                 [&](GraphBuilder& b, const Node& old, Value v) -> std::optional<Value> {
                   if (!needed[static_cast<size_t>(v)]) return std::nullopt;
                   return b.copy(with_bodies(old, remove_dead_nodes), old.operands);
                 });
}

}  // namespace pto
