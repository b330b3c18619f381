// SPDX-License-Identifier: Apache-2.0
// AxisMap: places the axes of a value in the iteration space of a loop nest.
//
//     own_map({Dim::symbol(0), 1, Dim::symbol(1)});   // {0, -1, 1}, in the space (s0, s1)
//
// In x - sum(x, {2}), for the same x, the sum is needed at the map {0, -1, -1}: one element serves
// all of axis 1. An iteration space is a shape without its sizes of 1; -1 says that the value does
// not vary, kChosenAxis that an index chooses the place. Fusion uses maps to find values that can
// share a loop nest, code generation to address memory.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

using AxisMap = std::vector<int>;
constexpr int kChosenAxis = -2;

// Returns the sizes other than 1.
Dims iteration_space(const Dims& shape);

// Says whether a node is a reshape that does more than to put in or take out axes of size 1.
bool regroups(const Graph& graph, const Node& node);

// Axes that a reshape makes others of: [from, from_end) of its operand, [to, to_end) of itself.
struct Regrouped {
  size_t from, from_end, to, to_end;
};

// Cuts a reshape into the fewest axes that make each other; nothing where sizes do not tell them.
std::optional<std::vector<Regrouped>> regrouped(const Dims& from, const Dims& to);

// Returns the map of a value in its own iteration space.
AxisMap own_map(const Dims& shape);

// Returns the map at which operand `index` of `node` is needed, when the node is needed at `map`. A
// reduction needs reduce_operand_map instead. Throws pto::Error for a reshape that regroups
// elements (more than inserting or removing sizes of 1), and for operations without a map.
AxisMap operand_map(const Graph& graph, const Node& node, size_t index, const AxisMap& map);

// A reduction inside its own loop nest, whose space is that of the operand.
struct Reduction {
  Dims space;               // the operand's
  std::vector<int> axes;    // of the space, ascending; empty where only sizes of 1 are reduced
  AxisMap operand, result;  // their maps in the space
};
Reduction reduction(const Graph& graph, const Node& node);

}  // namespace pto
