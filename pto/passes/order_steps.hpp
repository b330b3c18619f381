// SPDX-License-Identifier: Apache-2.0
// in_order(): puts kernels and steps that may run in several orders into the one that the hint
// `order` asks for.
//
//     in_order({{}, {0}, {}}, {0, 1, 2}, StepOrder::Longest);   // {0, 1, 2}: 1 waits for 0
//
// Invariant: what an item needs stands before it.
// Thread safety: pure function.
#pragma once

#include <optional>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

enum class StepOrder {
  Submitted,  // as the lines of the program stand
  Depth,      // what reads a value soon behind what makes it
  Longest     // the first of the longest chain first
};

// Returns the order that the first node with the hint asks for.
std::optional<StepOrder> asked_order(const Graph& graph);

// Returns the items in order. `needs[i]` lists the items in front of item i, `place[i]` is its
// place in the program.
std::vector<size_t> in_order(const std::vector<std::vector<size_t>>& needs,
                             const std::vector<Value>& place, StepOrder order);

}  // namespace pto
