// SPDX-License-Identifier: Apache-2.0
// skip_fills(): leaves out a fill of which a loop writes every element.
//
//     out = pto.zeros([n, 8])
//     for i in pto.loop(n):
//         out[i] = f(x[i])         # out is not filled with zeros first
//
// It holds where each iteration writes one place along an axis, and all of the others, into what
// it carries; where it reads nothing of that; and where the places are all there are.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph skip_fills(const Graph& graph);

}  // namespace pto
