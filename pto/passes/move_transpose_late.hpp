// SPDX-License-Identifier: Apache-2.0
// move_transpose_late: computes on tensors as they lie in memory and transposes the result.
//
//     Graph late = move_transpose_late(graph);
//
// In:   relu(transpose(x)), sum(transpose(x)), concat(transpose(x), transpose(y)),
//   reshape(transpose(x)): operations on tensors whose last axis is not the last one in memory,
//   alone or with broadcasts. A picture whose channels lie last comes so from a framework that
//   counts them second.
// Out:  transpose(relu(x)), ...: kernels read and write vectors, where they gathered elements, and
//   transposes meet, where they undo each other or become one copy.
// Cost: a walk of the graph for each level of nesting.
//
// A reduction of floats stays where its terms would come in another order.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

Graph move_transpose_late(const Graph& graph, PassNotes* notes = nullptr);

}  // namespace pto
