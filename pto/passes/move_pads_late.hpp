// SPDX-License-Identifier: Apache-2.0
// move_pads_late(): makes a pad along one axis the join of its border and what it surrounds, and
// computes what reads it in parts.
//
//     y - pto.pad(x, (0, 0, 1, 0))[:-1]     becomes the join of two kernels' results,
//     concat(y[:1] - 0, y[1:] - x[:-1])     each of which lies where it is read
//
// Nothing copies x then, nor fills what x is written over. Parts whose rows are short stay a pad,
// and so does what several nodes read, or what a kernel reads along with a value that another one
// computes.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph move_pads_late(const Graph& graph);

}  // namespace pto
