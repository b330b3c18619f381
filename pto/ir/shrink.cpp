// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "pto/ir/random_graph.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/verify.hpp"

namespace pto {
namespace {

// Replaces a node by an input of its type.
Graph with_input(const Graph& graph, Value replaced) {
  const std::string name = unused_name(graph, "v" + std::to_string(replaced));
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& node, Value old) {
    return std::optional(old == replaced ? b.input(name, node.type.dtype, node.type.shape)
                                         : b.copy(node, node.operands));
  });
}

// True where the inputs among `values`, or nodes that define sizes, give every symbol of the size.
bool is_known(const Dim& dim, const Graph& graph, const std::vector<Value>& values) {
  if (dim.is_constant()) return true;
  if (!dim.is_symbol())
    return is_known(dim.left(), graph, values) && is_known(dim.right(), graph, values);
  return std::any_of(values.begin(), values.end(), [&](Value v) {
    if (graph[v].op == Opcode::size) return graph[v].attributes.size == dim;
    const Dims& shape = graph[v].type.shape;
    return std::find(shape.begin(), shape.end(), dim) != shape.end();
  });
}

// Lists the inputs and the nodes that define sizes among the nodes that are `needed`.
std::vector<Value> size_givers(const Graph& graph, const std::vector<bool>& needed) {
  std::vector<Value> found;
  for (Value v = 0; static_cast<size_t>(v) < graph.nodes().size(); ++v)
    if (needed[static_cast<size_t>(v)] && (graph[v].is_parameter() || graph[v].op == Opcode::size))
      found.push_back(v);
  return found;
}

// Keeps the nodes that `outputs` need, inputs included; drops guards whose symbols are gone.
Graph cut(const Graph& graph, const std::vector<Value>& outputs) {
  const std::vector<bool> needed = needed_nodes(graph, outputs);
  const std::vector<Value> known = size_givers(graph, needed);
  return rebuild(
      graph, outputs,
      [&](GraphBuilder& b, const Node& node, Value old) -> std::optional<Value> {
        if (!needed[static_cast<size_t>(old)]) return std::nullopt;
        return b.copy(node, node.operands);
      },
      [&](const Guard& guard) {
        return is_known(guard.a, graph, known) && is_known(guard.b, graph, known);
      });
}

// True where every size follows from the inputs, and every stretched axis from the guards.
bool can_run(const Graph& graph) {
  const std::vector<Value> known =
      size_givers(graph, std::vector<bool>(graph.nodes().size(), true));
  for (const Node& node : graph.nodes())
    for (const Dim& dim : node.type.shape)
      if (!is_known(dim, graph, known)) return false;
  try {
    verify(graph);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Returns a graph with one output less, fewer nodes, or that of a body; nothing where every attempt
// stops failing.
std::optional<Graph> smaller_graph(const Graph& graph,
                                   const std::function<bool(const Graph&)>& fails) {
  for (Value v = 0; static_cast<size_t>(v) < graph.nodes().size(); ++v) {
    const bool is_whole = graph.outputs() == std::vector{v};
    Graph single = cut(graph, {v});
    if ((!is_whole || single.nodes().size() < graph.nodes().size()) && fails(single)) return single;
  }
  for (Value v = 0; static_cast<size_t>(v) < graph.nodes().size(); ++v) {
    if (graph[v].operands.empty() || graph[v].has_body()) continue;
    const Graph replaced = with_input(graph, v);
    Graph shorter = cut(replaced, replaced.outputs());
    if (shorter.nodes().size() < graph.nodes().size() && fails(shorter)) return shorter;
  }
  for (const Node& node : graph.nodes())
    for (const auto& body : node.attributes.bodies)
      if (node.op != Opcode::fused && fails(*body)) return *body;
  return std::nullopt;
}

}  // namespace

Graph shrink(const Graph& graph, const std::function<bool(const Graph&)>& fails) {
  const auto runs_and_fails = [&](const Graph& g) { return can_run(g) && fails(g); };
  Graph now = graph;
  while (auto smaller = smaller_graph(now, runs_and_fails)) now = std::move(*smaller);
  return now;
}

}  // namespace pto
