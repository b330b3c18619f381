// SPDX-License-Identifier: Apache-2.0
// Made: the tensors that nodes make, and what each goes on from.
//
//     const Made made = made_by(graph, v);     // of a result: the loop, and which of its results
//     graph[made.node].operands[start_of(graph, made)];   // what the loop carries there at first
//
// Thread safety: pure functions.
#pragma once

#include <compare>

#include "pto/ir/graph.hpp"

namespace pto {

// Says whether an operation makes tensors of its own, rather than numbers or other addresses.
bool makes_tensors(Opcode op);

// Says whether the elements of an operation are those of its operand, at other places.
bool only_moves(Opcode op);

// Counts the operands of a node that are no inputs of its bodies; a loop's step is at the place of
// the index.
size_t operands_ahead(const Node& node);
// Returns the first operand that a loop or repeat carries.
size_t first_carried(const Node& node);

// One tensor that a node makes: the k-th of its results, else the 0th.
struct Made {
  Value node = -1;
  int index = 0;
  friend auto operator<=>(const Made&, const Made&) = default;
};

// Returns the operand from which a tensor goes on, in whose memory it may be: what a write, or a
// loop, starts from; what both bodies of a branch write into, or leave alone. -1: there is none.
int start_of(const Graph& graph, Made made);

// Returns the tensor behind a value; node -1 for inputs, numbers and what only moves elements.
Made made_by(const Graph& graph, Value v);

// Returns the value whose elements a value is in another shape, or itself.
Value reshaped_from(const Graph& graph, Value v);

}  // namespace pto
