// SPDX-License-Identifier: Apache-2.0
// writes_apart(): says whether the iterations of a loop may run side by side.
//
//     for i in pto.loop(n):
//         out[i] = f(x[i])          # true: each iteration writes its own part of out
//         total = total + x[i]      # false: each needs the one before
//
// It holds where each carried value is a tensor into which the body writes, and the parts that
// different iterations write differ in their offset along one axis by at least their size; or where
// offsets along two axes are the quotient and the remainder of the index by a size, times at least
// the size of the part. The body may read such a tensor at the offset along that axis at which it
// writes: out[i] = f(out[i]).
//
// Thread safety: pure function.
#pragma once

#include <string>

#include "pto/ir/graph.hpp"

namespace pto {

// Says why the iterations of a loop wait for each other: a clause that names the value, and the
// line of the node that makes them wait.
struct LoopObstacle {
  std::string why;
  Location line;
  bool is_certain = false;  // two iterations do write one place, or need each other's value
};

// `obstacle`, when given, is set where the result is false.
bool writes_apart(const Graph& graph, Value loop, LoopObstacle* obstacle = nullptr);

// Says the same of iterations `step` apart, from their body; 0: the step is not known. `counts_up`:
// the index is never negative.
bool body_writes_apart(const Graph& body, int64_t step, bool counts_up, LoopObstacle* obstacle);

}  // namespace pto
