// SPDX-License-Identifier: Apache-2.0
// writes_apart(): says whether the iterations of a loop may run side by side.
//
//     for i in pto.loop(n):
//         out[i] = f(x[i])          # true: each iteration writes its own part of out
//         total = total + x[i]      # false: each needs the one before
//
// It holds where each carried value is a tensor into which the body only writes, and the parts that
// different iterations write differ in their offset along one axis by at least their size.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

bool writes_apart(const Graph& graph, Value loop);

}  // namespace pto
