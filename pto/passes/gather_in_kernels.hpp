// SPDX-License-Identifier: Apache-2.0
// gather_in_kernels(): lets kernels read the rows that an index names where they lie, by the hint
// in_kernel, where a copy of them would be read once, or where a kernel copies them: short ones.
//
//     gather(table, ids) * 8                                  is one kernel
//     reshape(gather(table, ids of [b * l, 1]), [b, l, d])    becomes
//     gather(table of [v, 1, d], ids of [b, l, 1])            in front of kernels over [b, l, d]
//
// A kernel reads a row by vectors, so its last axis is whole; in a graph of products, or of
// transposes, kernels may run along another one, and the copy stays.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph gather_in_kernels(const Graph& graph);

}  // namespace pto
