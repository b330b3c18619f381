// SPDX-License-Identifier: Apache-2.0
// Segments: parts along an axis that a loop gives to its iterations by a table of counts.
//
//     ends = cumsum(counts)                            # counts: natural numbers
//     for e in pto.loop(counts.shape[0]):
//         n = counts[e]
//         first = ends[e] - n
//         out[first : first + n] = ...                 # apart: the segments lie behind each other
//         made[order[first : first + n]] = ...         # apart: order = sort(x).indices
//
// Thread safety: pure functions.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

// A graph, or a body and the node that it belongs to, whose operands its inputs stand for.
struct Scope {
  const Graph* graph;
  const Scope* outer = nullptr;  // of the node; null: the inputs stand for nothing known
  Value node = -1;
};

// Says whether an update or a scatter writes the segment that the iteration of a loop has alone.
// `scope`: that of the node; `loop`: that of the loop's body, which is `scope` or around it.
bool writes_own_segment(const Scope& scope, Value node, const Scope& loop);

}  // namespace pto
