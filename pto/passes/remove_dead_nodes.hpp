// SPDX-License-Identifier: Apache-2.0
// remove_dead_nodes: drops what no output needs.
//
// In:   any graph.
// Out:  every node but the inputs is needed by an output; inputs and guards stay, since callers
//       pass the ones and rely on the others.
// Cost: a walk of the graph.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph remove_dead_nodes(const Graph& graph);

}  // namespace pto
