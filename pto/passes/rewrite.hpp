// SPDX-License-Identifier: Apache-2.0
// rewrite(): walks a graph, operands first, and lets a rule replace nodes.
//
//     Graph g = rewrite(graph, [](GraphBuilder& b, const Node& node) -> std::optional<Value> {
//       if (node.op == Opcode::neg && b.node(node.operands[0]).op == Opcode::neg)
//         return b.node(node.operands[0]).operands[0];
//       return std::nullopt;                       // keep it
//     });
//
// The walk repeats until nothing changes, at most 16 times. A rule that would change more is a
// mistake of ours: the graph is right as it is, and `notes` say so. Locations pass to the
// replacement, guards and inputs stay; bodies of loops are rewritten too.
//
// Invariant: the node that the rule sees has operands of the new graph; the value that the rule
// returns has the node's type.
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <optional>

#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

using Rule = std::function<std::optional<Value>(GraphBuilder&, const Node&)>;

Graph rewrite(const Graph& graph, const Rule& rule, PassNotes* notes = nullptr);

// Returns the number of a constant, also behind broadcasts.
std::optional<std::variant<double, int64_t>> constant_of(const GraphBuilder& b, Value v);

}  // namespace pto
