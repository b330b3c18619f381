// SPDX-License-Identifier: Apache-2.0
// RegionPlan: the loop nest of one fused region: its axes, and the sweep that computes each value.
//
//     RegionPlan plan = plan_region(body, {StrideClass::Contiguous});
//     plan.sweeps;   // 3 for softmax over f32[s0, s1]
//
// Softmax has the axes s0 (outer) and s1 (inner). Sweep 0 takes the maximum of a row, sweep 1 the
// sum of exp(x - max), which stays in a row buffer, and sweep 2 divides and stores. A sweep is one
// pass over the inner axes, the axes that the region's reductions remove. An instance is a value at
// an axis map: a value needed at two maps is computed at both; broadcasts, reshapes and transposes
// are the instance of their operand. Instances that do not vary along the inner axes are computed
// once between the sweeps.
//
// Axes merge, and may be in another order than in the space: see region_axes.hpp.
//
// Thread safety: plain values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/codegen/memref.hpp"
#include "pto/codegen/task_limits.hpp"
#include "pto/ir/axis_map.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct RegionAxis {
  Dim size;
  bool inner;
  std::vector<Dim> parts;  // the axes that were merged into this one, the outermost first
};

// The distance that an operand moves in memory for a step along an axis. Folded: it differs from
// step to step, since the tensor's memory does not merge where the axes do. Chosen: an index says
// the place. On an axis with a period, Repeated: neighbours stay for a period each; Periodic: those
// of one period come again in the next.
enum class AxisStep : uint8_t { None, Unit, Strided, Folded, Chosen, Repeated, Periodic };

// The layout of a tensor of a region.
struct RegionLayout {
  StrideClass strides;
  AxisGaps gaps;

  // NOLINTNEXTLINE(google-explicit-constructor)
  RegionLayout(StrideClass known)
      : RegionLayout(known,
                     known == StrideClass::Contiguous ? AxisGaps() : AxisGaps::everywhere()) {}
  RegionLayout(StrideClass known, AxisGaps between) : strides(known), gaps(between) {}
};

struct AxisAccess {
  AxisStep step = AxisStep::None;
  // The tensor's dimensions along the axis, one per part, the outermost first. The last one's
  // stride is the step, unless it is Folded. Empty where the tensor does not vary.
  std::vector<int> dims;
};

struct Instance {
  Value value;                // a value of the body
  AxisMap map;                // over the axes before merging
  std::vector<int> operands;  // instances; for a reduction the one that it reduces
  bool inner = false;         // varies along an inner axis
  int level = 0;              // the first sweep in which it can be computed
  bool expensive = false;     // worth a row buffer rather than a second computation
  bool reduces = false;
  std::optional<Dim> count;          // for a sum of ones: their number, known without a sweep
  int input = -1;                    // the body's input that a load reads; else -1
  std::vector<AxisAccess> accesses;  // one per axis, for a load and for positions
  // A load that gathers has an operand, which says the places along this dimension of its tensor:
  // one for all of the vector axis.
  std::optional<int> chosen_dim;
};

struct RegionOutput {
  int instance;
  bool inner;                        // it has one element for each step of the inner axes
  std::vector<AxisAccess> accesses;  // one per axis
};

// An expensive value that sweep `from` keeps in a row of scratch memory for later sweeps. The last
// sweep that reads a row may fill it anew: it reads all of a tile before it stores one.
struct RowBuffer {
  int instance;
  int from;
  size_t row = 0;  // its place among RegionPlan::rows_of_scratch
};

struct RegionPlan {
  std::vector<RegionAxis> axes;     // outer and inner ones in the order of the space, unless turned
  std::vector<Instance> instances;  // operands before users
  std::vector<RegionOutput> outputs;  // in the order of the body's outputs
  std::vector<RowBuffer> buffers;
  std::vector<DType> rows_of_scratch;  // the element types of the rows that buffers share
  bool needs_buffers = false;          // without them the region computes most of its values often
  int sweeps = 1;
  bool rows = false;    // the last axis is inner: vectors run along the reduced axis
  bool turned = false;  // short rows: vectors run along the axis in front of them, which is last
  int64_t period = 1;   // the size of the short axis that is the last part of the last axis
  TaskLimits limits;

  bool reduces() const;  // there are inner axes
  // Lists the axes that items run over: the outer ones, without a vector axis that is cut in
  // pieces.
  std::vector<int> item_axes() const;
  // Lists the inner axes around the vector loop.
  std::vector<int> loop_axes() const;
  Dim vector_size() const;
  int64_t piece() const;  // elements of the vector axis in one item, where it is outer
  Dim items() const;
  Dim row_size() const;  // the product of the inner axes

  // True where an output is stored inside the innermost loop.
  bool stored_in_sweep(const RegionOutput& output) const;
  // List the reductions that a sweep computes, and all values that it must compute for them and to
  // store.
  std::vector<int> reductions(int sweep) const;
  std::vector<int> roots(int sweep) const;
  // Lists the instances needed for `roots`, operands first; nothing below a reduction or below a
  // value for which `stop` holds.
  std::vector<int> needed(const std::vector<int>& roots,
                          const std::function<bool(int)>& stop) const;
  const Instance& at(int i) const { return instances[static_cast<size_t>(i)]; }
};

// Says whether the loops can store an output as it lies, with these strides: not where neighbours
// on the vector axis may be more than a few elements apart, or axes that are one have gaps.
bool can_store(const RegionPlan& plan, size_t output, const std::vector<std::string>& strides);

// Says whether a region may write output `output` over its input `input`: each element of the input
// must be read before the element of the output with its place is stored, and nowhere else. So the
// last sweep may store it, and no other.
bool may_write_over(const Graph& body, size_t input, size_t output);

// The size of the axis along which an index says the places of a load.
Dim chosen_size(const Graph& body, const Instance& load);

// `layouts` has one entry per tensor input of the body, and may have one per output behind them.
RegionPlan plan_region(const Graph& body, const std::vector<RegionLayout>& layouts);

}  // namespace pto
