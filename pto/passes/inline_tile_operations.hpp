// SPDX-License-Identifier: Apache-2.0
// inline_tile_operations(): a tile operation with a body becomes the nodes of its body.
//
//     %1 = tile(%x) {name=cube} graph cube(%x: f32[]) -> (f32[]) { ... }    becomes
//     %1 = mul(%x, %x) : f32[s0] !tile_op="cube"
//     %2 = mul(%1, %x) : f32[s0] !tile_op="cube"
//
// The hint is its name in texts and traces. One in C++ stays as it is.
//
// In:   any graph.
// Out:  no node `tile` has a body; results equal the interpreter's.
// Cost: a walk of the graph.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

Graph inline_tile_operations(const Graph& graph, PassNotes* notes = nullptr);

}  // namespace pto
