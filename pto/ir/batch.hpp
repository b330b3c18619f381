// SPDX-License-Identifier: Apache-2.0
// map_batch(): finds out whether a graph is another one, applied to each element of a batch.
//
//     const Graph one = parse("graph one(%x: f32[s0]) -> (f32[s0]) { return %x }");
//     const Graph many = parse("graph many(%x: f32[s9, s0]) -> (f32[s9, s0]) { return %x }");
//     map_batch(many, one, {true}, Dim::symbol(9));   // {true}: output 0 has the batch in front
//
// A graph that was traced a second time with one more axis in front computes the same for each row
// only if no operation mixes rows or takes that axis for another one. map_batch() decides this node
// by node, from the outputs; an operation that it does not understand counts as "no".
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// Says for each output of `many` whether it has the batch axis in front; returns nothing when
// `many` is not `one` mapped. `has_batch` says for each input of `many` (scalars too) whether its
// type is that of `one` with the size `batch` in front; the others have equal types. Behind the
// batch there may be more, or fewer, axes of size 1 than `one` starts with, in inputs and outputs:
// a vector and a matrix broadcast row by row only as [batch, 1, n] and [batch, m, n]. `batch`
// occurs nowhere in `one`.
std::optional<std::vector<bool>> map_batch(const Graph& many, const Graph& one,
                                           const std::vector<bool>& has_batch, const Dim& batch);

}  // namespace pto
