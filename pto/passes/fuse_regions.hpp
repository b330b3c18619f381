// SPDX-License-Identifier: Apache-2.0
// fuse_regions: groups operations into regions, each of which becomes one kernel.
//
//     Graph fused = fuse_regions(graph);   // softmax becomes one `fused` node
//
// In:   element-wise operations, reductions, broadcasts, transposes, reshapes of sizes of 1.
// Out:  inputs, `fused` nodes (one region each, in order of execution) and their results.
// Cost: a walk of each output's and each reduction's operands.
//
// A region is one loop nest: all its reductions have the same iteration space and the same axes.
// Only results of reductions pass from region to region; each region computes the element-wise
// operations that it needs again, so no temporary has the size of a full tensor. But after
// `longest` operations, one after the other, a value is stored: the time that a C++ compiler takes
// for a function grows faster than its length.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph fuse_regions(const Graph& graph, int longest = 256);

}  // namespace pto
