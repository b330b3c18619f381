// SPDX-License-Identifier: Apache-2.0
// Elements at positions that an integer tensor says, along one axis: gather reads, scatter writes.
//
// The index has as many axes as its tensor. Where one of its sizes is 1, other than along the axis,
// one position serves all of that axis: an index [n, 1] along axis 0 names n whole rows.
// gather and scatter may have several axes, one behind another: positions count over all of them,
// as over one axis of that size in a reshape.
#include <algorithm>
#include <cmath>

#include "pto/base/number.hpp"
#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/bounds.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

// Returns a shape with the axes of a node as one, whose place is axes[0].
template <class Sizes>
Sizes joined_axes(const Node& node, const Sizes& shape) {
  Sizes joined = shape;
  const auto& axes = node.attributes.axes;
  const auto front = joined.begin() + axes.front();
  for (size_t i = 1; i < axes.size(); ++i) {
    *front = *front * front[1];
    joined.erase(front + 1);
  }
  return joined;
}

// Returns the type of operand 0, with the axes of the node as one.
Type joined_type(const Node& node, const Operands& operands) {
  Type of = type(operands, 0);
  const auto& axes = node.attributes.axes;
  const auto rank = static_cast<int64_t>(of.shape.size());
  bool are_joined = node.op != Opcode::scatter_add && axes.size() > 1 && axes.front() >= 0;
  for (size_t i = 1; i < axes.size(); ++i) are_joined &= axes[i] == axes[i - 1] + 1;
  if (are_joined && axes.back() < rank)
    of.shape = joined_axes(node, of.shape);
  else
    require_one_axis(node, of.shape);
  return of;
}

// Returns the type of the elements that operand 1 names in operand 0.
Type chosen_type(const Node& node, const Operands& operands) {
  const Type of = joined_type(node, operands), &index = type(operands, 1);
  require_dtype(node.op, of.dtype);
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  if (!is_integer(index.dtype) || index.dtype == DType::U64)
    fail({label(node.op) + ": the positions are " + text(index),
          "positions are integers that fit an i64", "cast them to i64"},
         ErrorKind::Type);
  bool fits = index.shape.size() == of.shape.size();
  for (size_t i = 0; fits && i < of.shape.size(); ++i)
    fits = i == axis || index.shape[i] == Dim(1) || may_equal(index.shape[i], of.shape[i]);
  if (!fits)
    fail({label(node.op) + ": a tensor of shape " + text(of.shape) + " and positions of shape " +
              text(index.shape) + " along axis " + std::to_string(axis),
          "positions have as many axes as the tensor, and its sizes, or 1, along the others",
          "reshape the positions"});
  Type chosen = of;
  chosen.shape[axis] = index.shape[axis];
  return chosen;
}

std::vector<SizePair> sizes_of_index(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs;
  const Dims of = joined_type(node, operands).shape, &index = type(operands, 1).shape;
  for (size_t i = 0; i < of.size(); ++i)
    if (static_cast<int64_t>(i) != node.attributes.axes[0])
      pairs.push_back({index[i], of[i], true});
  return pairs;
}

// The places in a tensor of the elements that an index names.
struct Chosen {
  std::vector<int64_t> shape;   // of the elements
  std::vector<int64_t> places;  // of each; -1: none
  bool is_certain = true;       // compiled code finds the same positions
};

// A position of -1 names no element where `may_skip` says so.
Chosen chosen_places(Evaluation& in, const Node& node, bool may_skip) {
  const auto of = joined_axes(node, in.operand(node, 0).array.shape);
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  Chosen chosen{of, {}};
  chosen.shape[axis] = in.operand(node, 1).array.shape[axis];
  const int64_t before = in.budget().elements();
  in.budget().hold(elements_of(chosen.shape));
  const Bounded index = in.broadcast(in.operand(node, 1), chosen.shape);
  in.budget().give_back_to(before);
  const int64_t inner = dense_strides(of)[axis], count = chosen.shape[axis], size = of[axis];
  for (size_t i = 0; i < index.array.size(); ++i) {
    const int64_t at = index.array.integers[i], lines = static_cast<int64_t>(i) / inner;
    if (at >= size || at < (may_skip ? -1 : 0))
      fail({label(node.op) + ": position " + text(at) + " along axis " + std::to_string(axis) +
                ", which has the size " + text(size),
            std::string("a position is at least 0 and less than the size") +
                (may_skip ? "; -1 writes nothing" : ""),
            "limit them: pto.clip(index, 0, n - 1)"},
           ErrorKind::Position);
    const int64_t line = lines / count * size + at;
    chosen.places.push_back(at < 0 ? -1 : line * inner + static_cast<int64_t>(i) % inner);
    if (in.with_bounds() && index.bounds[i] > 0) chosen.is_certain = false;
  }
  return chosen;
}

// --- gather --------------------------------------------------------------------------------------

// Along the axis of the positions an element of the operand serves as the index says.
AxisMap map_gather(const Node& node, size_t index, const Dims& from, const AxisMap& map) {
  AxisMap result = map;
  for (size_t i = 0; i < from.size(); ++i)
    if (index > 0 && is_one(from[i])) result[i] = -1;
  if (index == 0) result[static_cast<size_t>(node.attributes.axes[0])] = kChosenAxis;
  return result;
}

std::vector<Bounded> evaluate_gather(Evaluation& in, const Node& node) {
  const Chosen chosen = chosen_places(in, node, false);
  const std::vector<size_t> places(chosen.places.begin(), chosen.places.end());
  Bounded out = in.gather(in.operand(node, 0), chosen.shape, places);
  if (!chosen.is_certain) allow_any_value(out);
  return one_result(std::move(out));
}

// --- scatter, scatter_add ------------------------------------------------------------------------

Type infer_scatter(const Node& node, const Operands& operands) {
  const Type chosen = chosen_type(node, operands);
  const Type &into = type(operands, 0), &part = type(operands, 2);
  require_same_dtype(node.op, into, part);
  bool fits = part.shape.size() == chosen.shape.size();
  for (size_t i = 0; fits && i < chosen.shape.size(); ++i)
    fits = may_equal(part.shape[i], chosen.shape[i]);
  if (!fits)
    fail({label(node.op) + ": a part of shape " + text(part.shape) + " for positions of shape " +
              text(type(operands, 1).shape) + " in a tensor of shape " + text(into.shape),
          "the part has an element for each position: the shape " + text(chosen.shape),
          "broadcast or slice the part"});
  return into;
}

std::vector<SizePair> sizes_of_scatter(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs = sizes_of_index(node, operands);
  const Type chosen = chosen_type(node, operands);
  for (size_t i = 0; i < chosen.shape.size(); ++i)
    pairs.push_back({type(operands, 2).shape[i], chosen.shape[i], false});
  return pairs;
}

// The last element in row-major order stays, where several are for one place.
std::vector<Bounded> evaluate_scatter(Evaluation& in, const Node& node) {
  const Chosen chosen = chosen_places(in, node, true);
  const Bounded& part = in.operand(node, 2);
  Bounded out = in.operand(node, 0);
  for (size_t i = 0; i < chosen.places.size(); ++i) {
    if (chosen.places[i] < 0) continue;
    const auto place = static_cast<size_t>(chosen.places[i]);
    out.array.set(place, part.array.at(i));
    if (in.with_bounds()) out.bounds[place] = part.bounds[i];
  }
  if (!chosen.is_certain) allow_any_value(out);
  return one_result(std::move(out));
}

// Adds in row-major order, as a sum does: floats in double, rounded once.
std::vector<Bounded> evaluate_scatter_add(Evaluation& in, const Node& node) {
  const Chosen chosen = chosen_places(in, node, true);
  const Bounded& part = in.operand(node, 2);
  Bounded out = in.operand(node, 0);
  const DType dtype = out.array.dtype;
  std::vector<ReductionBound> bounds;
  for (size_t i = 0; i < out.bounds.size(); ++i)
    bounds.emplace_back(Opcode::sum, dtype).add(out.array.at(i), out.bounds[i]);
  for (size_t i = 0; i < chosen.places.size(); ++i) {
    if (chosen.places[i] < 0) continue;
    const auto place = static_cast<size_t>(chosen.places[i]);
    const ElementNumber x = part.array.at(i);
    out.array.set(place, fold(Opcode::sum, dtype, out.array.at(place), x));
    if (in.with_bounds()) bounds[place].add(x, part.bounds[i]);
  }
  out.array.normalize();
  for (size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i].count() > 1)
      out.bounds[i] = bounds[i].at(static_cast<double>(bounds[i].count()), out.array.at(i));
  if (!chosen.is_certain) allow_any_value(out);
  return one_result(std::move(out));
}

constexpr Operation scatter_row(std::string_view name, uint32_t dtypes,
                                std::vector<Bounded> (*evaluate)(Evaluation&, const Node&)) {
  return {.info = {name, "", Family::Structure, 3},
          .dtypes = dtypes,
          .field = Field::Axes,
          .kernel = KernelForm::Step,
          .infer = infer_scatter,
          .sizes = sizes_of_scatter,
          .evaluate = evaluate,
          .keeps_rows_apart = has_axes_behind_batch};
}

}  // namespace

namespace operations {

constinit const Operation gather{.info = {"gather", "", Family::Structure, 2},
                                 .field = Field::Axes,
                                 .kernel = KernelForm::Step,
                                 .infer = chosen_type,
                                 .sizes = sizes_of_index,
                                 .evaluate = evaluate_gather,
                                 .operand_map = map_gather,
                                 .keeps_rows_apart = has_axes_behind_batch};
constinit const Operation scatter = scatter_row("scatter", kAny, evaluate_scatter);
constinit const Operation scatter_add =
    scatter_row("scatter_add", kArithmetic, evaluate_scatter_add);

}  // namespace operations
}  // namespace pto
