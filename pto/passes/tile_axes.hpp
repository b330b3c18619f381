// SPDX-License-Identifier: Apache-2.0
// tile_axes(): finds where an axis of a kernel's input lies in everything that the kernel computes.
//
//     tile_axes(body, input, 0);   // of x - sum(x, {1}): axis 0 everywhere; {}: along axis 1
//
// A kernel may run on parts along that axis, one after another, if each element that it stores
// needs one position of the axis.
//
// Thread safety: pure function.
#pragma once

#include <optional>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// Returns for each node of the body the axis along which parts differ, -1 where all parts share it;
// nothing where parts of outputs need more than their part of the input, or do not differ.
std::optional<std::vector<int>> tile_axes(const Graph& body, Value input, int axis);

}  // namespace pto
