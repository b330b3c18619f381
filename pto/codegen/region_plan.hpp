// SPDX-License-Identifier: Apache-2.0
// RegionPlan: the loop nest of one fused region: axes, what is computed where, in which sweep.
//
//     softmax over f32[s0, s1]: axes s0 (outer), s1 (inner); sweep 0 takes the maximum of a row,
//     sweep 1 the sum of exp(x - max), which stays in a row buffer, sweep 2 divides and stores.
//
// A sweep is one pass over the inner axes, the axes that the region's reductions remove. An
// instance is a value at an axis map: a value needed at two maps is computed at both; broadcasts,
// reshapes and transposes are the instance of their operand. Instances that do not vary along the
// inner axes are computed once between the sweeps.
// Thread safety: plain values.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/ir/axis_map.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct Axis {
  Dim size;
  bool inner;
};

// How far an operand moves in memory for a step along an axis.
enum class Step : uint8_t { None, Unit, Strided };

struct Access {
  int dim = -1;  // of the tensor, whose stride is the step; -1 where it does not vary
  Step step = Step::None;
};

struct Instance {
  Value value;                // of the body
  AxisMap map;                // over the axes before merging
  std::vector<int> operands;  // instances; of a reduction the one that is reduced
  bool inner = false;         // varies along an inner axis
  int level = 0;              // the first sweep in which it can be computed
  bool expensive = false;     // worth a row buffer rather than a second computation
  bool reduces = false;
  std::optional<Dim> count;      // a sum of ones: how many, known without a sweep
  int input = -1;                // of the body, for a load; else -1
  std::vector<Access> accesses;  // one an axis, for a load
};

struct RegionOutput {
  int instance;
  bool inner;                    // one element for each step of the inner axes
  std::vector<Access> accesses;  // one an axis
};

// An expensive value that sweep `from` keeps in a row buffer for later sweeps.
struct RowBuffer {
  int instance;
  int from;
};

struct RegionPlan {
  std::vector<Axis> axes;             // outer and inner ones in the order of the space
  std::vector<Instance> instances;    // operands before users
  std::vector<RegionOutput> outputs;  // in the order of the body's outputs
  std::vector<RowBuffer> buffers;
  int sweeps = 1;
  bool rows = false;  // the last axis is inner: vectors run along the reduced axis

  bool reduces() const;  // whether there are inner axes
  // The axes that items run over: the outer ones, less the vector axis where that is cut in pieces.
  std::vector<int> item_axes() const;
  // The inner axes around the vector loop.
  std::vector<int> loop_axes() const;
  Dim vector_size() const;
  int64_t piece() const;  // elements of the vector axis in one item, where it is outer
  Dim items() const;
  Dim row_size() const;  // the product of the inner axes

  // Whether an output is stored inside the innermost loop.
  bool stored_in_sweep(const RegionOutput& output) const;
  // The reductions that a sweep computes, and all values that it must compute for them and to
  // store.
  std::vector<int> reductions(int sweep) const;
  std::vector<int> roots(int sweep) const;
  // The instances needed for `roots`, operands first; nothing below a reduction or below a value
  // for which `stop` holds.
  std::vector<int> needed(const std::vector<int>& roots,
                          const std::function<bool(int)>& stop) const;
  const Instance& at(int i) const { return instances[static_cast<size_t>(i)]; }
};

// `strides` has one entry per tensor input of the body.
RegionPlan plan_region(const Graph& body, const std::vector<StrideClass>& strides);

}  // namespace pto
