// SPDX-License-Identifier: Apache-2.0
// fold_constants: computes operations on constants.
//
//     Graph folded = fold_constants(graph);   // exp(0) becomes the constant 1
//
// In:   any graph.
// Out:  no element-wise operation but those of users has only constant operands; results equal the
//       interpreter's.
// Cost: a walk of the graph.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

Graph fold_constants(const Graph& graph, PassNotes* notes = nullptr);

}  // namespace pto
