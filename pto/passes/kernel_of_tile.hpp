// SPDX-License-Identifier: Apache-2.0
// kernel_of_tile(): the kernel that computes a tile of what another one computes.
//
//     TileKernel tile = kernel_of_tile(body, member.axes, parts);   // rows of f32[s0, s1] for s5
//     tile.starts;   // {0}: its first input is the row at which the tile begins
//
// Positions that the kernel counts along an axis begin in a tile where the tile does, so that the
// kernel of a tile needs to know where.
//
// Thread safety: pure function.
#pragma once

#include <vector>

#include "pto/passes/product_group.hpp"

namespace pto {

struct TileKernel {
  Graph body;
  std::vector<int> starts;  // cuts; where the tile begins along them are the first inputs, numbers
};

// `axes` of a cut: of each node the axis that it divides, or -1. `parts` of a cut: the size of a
// tile along it; null: there is no such cut.
TileKernel kernel_of_tile(const Graph& body, const std::vector<int> (&axes)[kCuts],
                          const Dim* const (&parts)[kCuts]);

}  // namespace pto
