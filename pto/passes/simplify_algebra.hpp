// SPDX-License-Identifier: Apache-2.0
// simplify_algebra: removes operations that do not change a single bit.
//
//     Graph simple = simplify_algebra(graph);
//
// In:   any graph.
// Out:  nothing that a rule of algebra_rules.hpp takes: x*1, x-0, x/2^n, neg(neg(x)), a cast there
//   and back ...; the interpreter's result is bit-equal, -0 and NaN included (so x+0 stays for
//   floats: it turns -0 into 0; x*0 stays: NaN).
// Cost: a few walks of the graph.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

Graph simplify_algebra(const Graph& graph, PassNotes* notes = nullptr);

}  // namespace pto
