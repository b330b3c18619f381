// SPDX-License-Identifier: Apache-2.0
// rebuild(): copies a graph node by node; passes and tests change graphs with it.
//
//     const auto make = [&](GraphBuilder& b, const Node& node, Value old) -> std::optional<Value> {
//       if (!needed[old]) return std::nullopt;       // left out; nothing may use it
//       return b.copy(node, node.operands);          // operands are values of the new graph
//     };
//     Graph without_dead = rebuild(g, g.outputs(), make);
//
// Invariant: guards are kept, unless `keep` refuses one; the value that `make` returns has the
// node's type and gets the node's locations and hints, as all nodes made on the way.
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

using MakeNode = std::function<std::optional<Value>(GraphBuilder&, const Node&, Value old)>;

// Copies the node as it is: a MakeNode.
inline std::optional<Value> copy_node(GraphBuilder& b, const Node& node, Value) {
  return b.copy(node, node.operands);
}

// `outputs` are values of `graph`.
Graph rebuild(const Graph& graph, const std::vector<Value>& outputs, const MakeNode& make,
              const std::function<bool(const Guard&)>& keep = {});

// Returns the node with `change(body)` in the place of each body.
Node with_bodies(Node node, const std::function<Graph(const Graph&)>& change);

// Returns the graph with these hints at all nodes, those of bodies too, which have none of the same
// name; the hint `tuned` of a node names those that it got.
Graph with_hints(const Graph& graph, const std::vector<Hint>& hints);

// Records the nodes of `graph` with `inputs` in the place of its own; returns its outputs. A size
// that its nodes define, or those of its bodies, gets the symbol *free_symbol, which moves on.
std::vector<Value> inline_graph(GraphBuilder& b, const Graph& graph, std::vector<Value> inputs,
                                int* free_symbol);

// Lists the symbols of all sizes that a node names: in its type, its attributes and its bodies.
std::set<int64_t> symbols_of(const Node& node);

// Returns the number of the first symbol behind all that the sizes of a graph and its bodies name.
int free_symbol_of(const Graph& graph);

// Returns a name that no input of the graph has: this one, perhaps with more behind it.
std::string unused_name(const Graph& graph, std::string name);

// Says whether a graph, or a body in it, checks values: it is needed though nothing reads it.
bool has_checks(const Graph& graph);

// Says for each node whether one of `roots` needs it, or a check.
std::vector<bool> needed_nodes(const Graph& graph, const std::vector<Value>& roots);

}  // namespace pto
