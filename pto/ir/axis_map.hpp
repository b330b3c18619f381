// SPDX-License-Identifier: Apache-2.0
// AxisMap: where the axes of a value lie in the iteration space of a loop nest.
//
//     x: f32[s0, 1, s1]   has the iteration space (s0, s1) and the map {0, -1, 1} in it.
//     In x - sum(x, {2}) the sum is needed at the map {0, -1, -1}: the same for all of axis 1.
//
// An iteration space is a shape without its sizes of 1. -1 says: one element for all of the space.
// Fusion uses maps to find what can share a loop nest, code generation to address memory.
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

using AxisMap = std::vector<int>;

// The sizes other than 1.
Dims iteration_space(const Dims& shape);

// The map of a value in its own iteration space.
AxisMap own_map(const Dims& shape);

// The map at which operand `index` of `node` is needed, where the node is needed at `map`. For a
// reduction that is reduce_operand_map instead. Throws pto::Error for a reshape that regroups
// elements (more than inserting or removing sizes of 1), and for operations without a map.
AxisMap operand_map(const Graph& graph, const Node& node, size_t index, const AxisMap& map);

// A reduction inside its own loop nest: the space is that of its operand.
struct Reduction {
  Dims space;               // of the operand
  std::vector<int> axes;    // of the space, ascending; empty where only sizes of 1 are reduced
  AxisMap operand, result;  // their maps in the space
};
Reduction reduction(const Graph& graph, const Node& node);

}  // namespace pto
