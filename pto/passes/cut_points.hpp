// SPDX-License-Identifier: Apache-2.0
// CutGraph: a graph in parts, cut by its user's hints or by its length. A kernel holds nodes of one
// part; a value that goes from one part to another has a copy, which is read from memory. So has
// one that a step reads, for kernels behind that step, which need not compute it again.
//
//     const CutGraph cut = cut_points(graph, false, 256);
//     cut.part[v];      // kernels hold nodes of one part
//     cut.is_kept[v];   // v is its operand, read from memory
//
// The hints `leaf_call` and `cut` make a part of equal numbers, `merge` one of each that many
// operations in a row. Constants and what only addresses a value in another way belong to each
// reader, as do products that additions take (pair_products.hpp).
//
// Invariant: parts change no bit. Where a sum over several axes would be added in another order
// because a kernel ends beside it, the whole graph stays one part; then a chain of more operations
// than the stack holds is refused by pto::Error.
// Thread safety: pure function.
#pragma once

#include <vector>

#include "pto/ir/graph.hpp"
#include "pto/passes/steps.hpp"

namespace pto {

struct CutGraph {
  Graph graph;
  std::vector<bool> is_kept;  // of each node
  std::vector<int> part;      // of each node; 0 where nobody asks
};

// `is_body`: see StepNodes. `longest`: operations in a row, after which another part begins.
CutGraph cut_points(const Graph& graph, bool is_body, int longest);

// Says whether a node belongs to the kernel of whoever reads it.
bool belongs_to_readers(const Graph& graph, const Node& node);

}  // namespace pto
