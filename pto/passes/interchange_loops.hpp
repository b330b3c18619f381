// SPDX-License-Identifier: Apache-2.0
// interchange_loops: lets the iterations of a loop that read side by side go through memory
// together.
//
//     for h in pto.loop(heads):              for h0 in pto.loop(0, heads, width):
//         s = first(h)                           s = first(h), for the heads from h0 on
//         for j in pto.loop(pages):              for j in pto.loop(pages):
//             s = f(s, k[page(j), :, h])             s = f(s, k[page(j), :, h]), for each of them
//         out[h] = g(s)                          out[h] = g(s), for each of them
//
// In:   any graph in front of fuse_regions.
// Out:  a loop whose iterations write apart from each other, and whose body has one loop in order
//   that reads parts with rows which those of the next iteration interrupt, becomes a loop over
//   groups of iterations. Its hint any_step says that every step of at least 1 gives the same: code
//   generation chooses it, and gives it to the last input of the body. In the group each value that
//   the inner loop carries has an axis for the iterations. Two products by such parts run in two
//   loops over the group, one behind the other (loop_halves.hpp).
// Cost: a walk of the graph.
//
// A loop whose order would pay for a change, and that keeps it, gets the hint keeps_order with the
// reason.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph interchange_loops(const Graph& graph);

}  // namespace pto
