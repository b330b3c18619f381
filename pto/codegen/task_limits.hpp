// SPDX-License-Identifier: Apache-2.0
// TaskLimits: the hints that say into how many tasks, of what size, a kernel or a loop is cut.
//
//     const TaskLimits limits = limits_of(body);
//     limits.text();      // ", Limits{2, 16}": two tasks at most, of 16 items; "" without hints
//
// An item of a kernel is a row, or a piece of the last axis; an item of a loop is an iteration.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/ir/graph.hpp"

namespace pto {

struct TaskLimits {
  int64_t workers = 0, tiles = 0;  // 0: as the machine has it
  int64_t tile = 0;  // elements of the last axis of which pieces are whole multiples; 0: any

  bool any() const { return workers > 0 || tiles > 0; }
  std::string text() const;
  // Returns the elements of a piece, where `usual` ones are the default: one tile where the user
  // says how many tiles are a task.
  int64_t piece(int64_t usual) const;
};

// Return the smallest limits that the nodes of a kernel ask for, and those that a loop asks for.
TaskLimits limits_of(const Graph& kernel);
TaskLimits limits_of(const Node& loop);

// Says whether a kernel of a fused graph asks for its number of tasks.
bool has_limits(const Graph& fused);

}  // namespace pto
