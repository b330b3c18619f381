// SPDX-License-Identifier: Apache-2.0
// Region axes: which axes of a region's space are one, and along which its vectors run.
//
//     join_axes(&plan, accesses);   // x + bias of f32[s0, s1, 3] and f32[3]: one axis, s0*s1*3
//
// Neighbouring axes merge where every tensor's memory does. Inner axes merge also where only the
// memory of dense tensors would: the order of a sum must not depend on strides. Without inner axes
// a short last axis joins the one before, so that vectors hold elements of several rows; where
// short rows are reduced, vectors run along the axis before them, which becomes the last one.
//
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "pto/codegen/region_plan.hpp"

namespace pto {

// One read or store of a region: an access for each axis, of a tensor with this layout and shape.
// Positions count along an axis, and read no memory.
struct TensorAccess {
  std::vector<AxisAccess>* axes;
  RegionLayout layout;
  const Dims* shape;
  bool are_positions;
};

// Joins and orders the axes of a plan, and all of its accesses with them.
void join_axes(RegionPlan* plan, const std::vector<TensorAccess>& accesses);

}  // namespace pto
