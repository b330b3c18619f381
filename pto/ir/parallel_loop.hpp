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
// the size of the part, and that size is not 0 where the loop has iterations. The body may read
// such a tensor at the offset along that axis at which it writes: out[i] = f(out[i]). Segments by a
// table of counts are apart, too.
//
// Thread safety: pure function.
#pragma once

#include <optional>
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

// Says whether it is true because of segments (segments.hpp), of which some may be empty.
bool writes_segments(const Graph& graph, Value loop);

// The indices of a loop.
struct LoopRange {
  int64_t step = 0;        // how far iterations that run for certain are apart; 0: not known
  bool counts_up = false;  // none is negative
  std::optional<Dim> end;  // all are less, where it is a size
};

// Says the same of iterations in a range, from their body.
bool body_writes_apart(const Graph& body, const LoopRange& range, LoopObstacle* obstacle);

}  // namespace pto
