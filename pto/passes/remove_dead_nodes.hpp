// SPDX-License-Identifier: Apache-2.0
// remove_dead_nodes: drops nodes that no output needs.
//
//     Graph live = remove_dead_nodes(graph);
//
// In:   any graph.
// Out:  an output needs every node but the inputs; inputs and guards stay, since callers pass the
//   inputs and rely on the guards.
// Cost: a walk of the graph.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph remove_dead_nodes(const Graph& graph);

}  // namespace pto
