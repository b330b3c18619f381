// SPDX-License-Identifier: Apache-2.0
// move_broadcast_late: computes on small operands and broadcasts the result.
//
//     Graph late = move_broadcast_late(graph);
//
// In:   exp(broadcast(a)), add(broadcast(a), broadcast(b)): element-wise operations on broadcasts
//   alone.
// Out:  broadcast(exp(a)), broadcast(add(a, b)): arithmetic on scalars and on one element per row
//   happens once, not once per element.
// Cost: a walk of the graph for each level of nesting.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

Graph move_broadcast_late(const Graph& graph, PassNotes* notes = nullptr);

}  // namespace pto
