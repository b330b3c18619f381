// SPDX-License-Identifier: Apache-2.0
// Comparisons of a check: the two sides that its error shows when it does not hold.
//
//     add_comparisons(graph, condition, &count);   // of rows < 2: operands rows and 2, and "lt"
//
// A check is a node `size` that counts where a condition is false. It keeps the sides of the
// comparisons that need no computing, and they are compared again only when it fails.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

// Adds to `count` the sides of the comparisons in a condition of `graph`, and their names.
void add_comparisons(const Graph& graph, Value condition, Node* count);

}  // namespace pto
