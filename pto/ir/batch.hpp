// SPDX-License-Identifier: Apache-2.0
// map_batch(): whether a graph is another one, applied to each element of a batch.
//
//     one:  y[s0] = x[s0] - broadcast(amax(x, {0}))
//     many: y[s9, s0] = x[s9, s0] - broadcast(amax(x, {1}))      for each of the s9 rows of x
//
// What is traced a second time with one more axis in front computes the same for each row only if
// no operation mixes rows or takes that axis for another one. That is decided node by node, from
// the outputs; what is not understood counts as "no".
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// For each output of `many` whether it has the batch axis, in front; nothing where `many` is not
// `one` mapped. `has_batch` says of each input of `many` (scalars too) whether its type is that of
// `one` with the size `batch` in front; the others have equal types. Behind the batch there may be
// more, or fewer, axes of size 1 than `one` starts with, of inputs and of outputs: a vector and a
// matrix broadcast row by row only as [batch, 1, n] and [batch, m, n]. `batch` occurs nowhere in
// `one`.
std::optional<std::vector<bool>> map_batch(const Graph& many, const Graph& one,
                                           const std::vector<bool>& has_batch, const Dim& batch);

}  // namespace pto
