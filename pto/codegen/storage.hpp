// SPDX-License-Identifier: Apache-2.0
// Storage: decides which values of a fused graph share memory, and which are written in place.
//
//     const Storage storage = plan_storage(graph, {{.is_given = true, .holder = out}});
//     storage.homes.at({update, 0});   // a buffer: that of the tensor that it writes into
//
// A buffer is memory that versions of a tensor share: a write, or a loop, continues in the buffer
// of what it starts from where nobody reads that later. A kernel or product whose value is a part
// of such a version, or of what a concat joins, writes it there at once. Outputs of the graph have
// given buffers: those of a loop's body are the memory of what the loop carries.
//
// Invariant: at each node, in the order of the graph, a buffer holds the version that the node
// reads.
// Thread safety: pure function.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "pto/ir/made.hpp"

namespace pto {

// The memory of an output: the caller's. `holder` is the input that lies there when the graph
// starts, -1: none. `is_dense`: it has no gaps, so that its elements may have another shape.
struct Given {
  bool is_given = false;
  Value holder = -1;
  bool is_dense = false;
};

struct Home {
  int buffer = -1;
  Value part_of = -1;  // the update or concat whose part of the buffer it is; -1: all of it
};

struct Storage {
  std::map<Made, Home> homes;
  std::vector<int> given;                     // of each buffer: the output, or -1
  std::set<std::pair<Value, size_t>> copies;  // (node, operand): copied before it is written
  std::set<Value> copied_moves;     // parts and moves that are copies, not other addresses
  std::set<size_t> continued;       // outputs whose buffers begin with their holder
  std::set<size_t> copied_outputs;  // outputs that are copied when the graph ends
};

// Returns the tensor behind an operand of a concat, which may have more or fewer axes of size 1.
Made joined_by(const Graph& graph, Value operand);

// `given` has one entry for each output.
Storage plan_storage(const Graph& graph, const std::vector<Given>& given);

}  // namespace pto
