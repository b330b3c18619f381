// SPDX-License-Identifier: Apache-2.0
// Operations that move elements and compute none.
#include <algorithm>

#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

int64_t rank_of(const Node& node) { return static_cast<int64_t>(node.type.shape.size()); }

// --- broadcast -----------------------------------------------------------------------------------

Type infer_broadcast(const Node& node, const Operands& operands) {
  const Type& from = type(operands, 0);
  const Dims& to = node.type.shape;
  bool fits = to.size() >= from.shape.size();
  for (size_t i = 0; fits && i < from.shape.size(); ++i) {
    const Dim& small = from.shape[from.shape.size() - 1 - i];
    fits = small == Dim(1) || may_equal(small, to[to.size() - 1 - i]);
  }
  if (fits) return {from.dtype, to};
  fail({"broadcast: shape " + text(from.shape) + " does not broadcast to " + text(to),
        "aligned at the last axis, sizes are equal or the source's is 1",
        "reshape the operand or change the target shape"});
}

std::vector<SizePair> sizes_of_broadcast(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs;
  const Dims &from = type(operands, 0).shape, &to = node.type.shape;
  for (size_t i = 0; i < from.size(); ++i)
    pairs.push_back({from[i], to[to.size() - from.size() + i], true});
  return pairs;
}

std::vector<Bounded> evaluate_broadcast(Evaluation& in, const Node& node) {
  return one_result(in.broadcast(in.operand(node, 0), in.sizes(node.type.shape)));
}

AxisMap map_broadcast(const Node& node, size_t, const Dims& from, const AxisMap& map) {
  const size_t shift = node.type.shape.size() - from.size();
  AxisMap result(from.size(), -1);
  for (size_t i = 0; i < from.size(); ++i)
    if (!is_one(from[i])) result[i] = map[i + shift];
  return result;
}

// Aligned at the last axis: the batch axes must meet.
bool rows_of_broadcast(const RowsOf& rows) {
  return rows.all_equal || rank_of(rows.many_graph[rows.many.operands[0]]) == rank_of(rows.many);
}

// --- reshape -------------------------------------------------------------------------------------

Type infer_reshape(const Node& node, const Operands& operands) {
  const Type& from = type(operands, 0);
  const Dim before = product(from.shape), after = product(node.type.shape);
  if (may_equal(before, after)) return {from.dtype, node.type.shape};
  fail({"reshape: shape " + text(from.shape) + " has " + text(before) + " elements but " +
            text(node.type.shape) + " has " + text(after),
        "a reshape keeps the number of elements", "choose sizes with the same product"});
}

std::vector<SizePair> sizes_of_reshape(const Node& node, const Operands& operands) {
  return {{product(type(operands, 0).shape), product(node.type.shape), false,
           "a reshape keeps the number of elements, provably or by a guard"}};
}

std::vector<Bounded> evaluate_reshape(Evaluation& in, const Node& node) {
  Bounded out = in.operand(node, 0);
  out.array.shape = in.sizes(node.type.shape);
  return one_result(std::move(out));
}

AxisMap map_reshape(const Node& node, size_t, const Dims& from, const AxisMap& map) {
  const Dims& to = node.type.shape;
  AxisMap kept;
  for (size_t i = 0; i < to.size(); ++i)
    if (!is_one(to[i])) kept.push_back(map[i]);
  AxisMap result(from.size(), -1);
  size_t next = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (is_one(from[i])) continue;
    if (next < kept.size()) result[i] = kept[next];
    ++next;
  }
  if (next != kept.size())
    fail({"reshape from " + text(from) + " to " + text(to) + " regroups elements inside a kernel",
          "a fused kernel can insert or remove axes of size 1 only",
          "reshape the argument before the call, or the result after it"});
  return result;
}

bool rows_of_reshape(const RowsOf& rows) { return rows.all_mapped; }

// --- transpose -----------------------------------------------------------------------------------

Type infer_transpose(const Node& node, const Operands& operands) {
  const Type& from = type(operands, 0);
  std::vector<int64_t> axes = node.attributes.axes;
  Type to{from.dtype, {}};
  for (const int64_t axis : axes)
    if (axis >= 0 && axis < static_cast<int64_t>(from.shape.size()))
      to.shape.push_back(from.shape[static_cast<size_t>(axis)]);
  std::sort(axes.begin(), axes.end());
  const bool distinct = std::adjacent_find(axes.begin(), axes.end()) == axes.end();
  if (distinct && axes.size() == from.shape.size() && to.shape.size() == axes.size()) return to;
  fail({"transpose: axes " + text(node.attributes.axes) + " on shape " + text(from.shape),
        "axes are a permutation of 0 .. rank-1", "name every axis once"});
}

std::vector<Bounded> evaluate_transpose(Evaluation& in, const Node& node) {
  const Bounded& from = in.operand(node, 0);
  const auto dense = dense_strides(from.array.shape);
  std::vector<int64_t> shape, strides;
  for (const int64_t axis : node.attributes.axes) {
    shape.push_back(from.array.shape[static_cast<size_t>(axis)]);
    strides.push_back(dense[static_cast<size_t>(axis)]);
  }
  return one_result(in.gather(from, shape, places(shape, strides)));
}

AxisMap map_transpose(const Node& node, size_t, const Dims& from, const AxisMap& map) {
  AxisMap result(from.size());
  for (size_t i = 0; i < map.size(); ++i)
    result[static_cast<size_t>(node.attributes.axes[i])] = map[i];
  return result;
}

// A permutation of `many` keeps the axes in front, and moves the others as that of `one`.
bool rows_of_transpose(const RowsOf& rows) {
  const int64_t ahead = rank_of(rows.many) - rank_of(rows.one);
  std::vector<int64_t> moved;
  for (int64_t axis = 0; axis < ahead; ++axis) moved.push_back(axis);
  for (const int64_t axis : rows.one.attributes.axes) moved.push_back(axis + ahead);
  return rows.all_mapped && rows.many.attributes.axes == moved;
}

}  // namespace

namespace operations {

constinit const Operation broadcast{.info = {"broadcast", "", Family::Structure, 1},
                                    .kernel = KernelForm::Moved,
                                    .infer = infer_broadcast,
                                    .sizes = sizes_of_broadcast,
                                    .evaluate = evaluate_broadcast,
                                    .operand_map = map_broadcast,
                                    .keeps_rows_apart = rows_of_broadcast};
constinit const Operation reshape{.info = {"reshape", "", Family::Structure, 1},
                                  .kernel = KernelForm::Moved,
                                  .infer = infer_reshape,
                                  .sizes = sizes_of_reshape,
                                  .evaluate = evaluate_reshape,
                                  .operand_map = map_reshape,
                                  .keeps_rows_apart = rows_of_reshape};
constinit const Operation transpose{.info = {"transpose", "", Family::Structure, 1},
                                    .field = Field::Axes,
                                    .kernel = KernelForm::Moved,
                                    .infer = infer_transpose,
                                    .evaluate = evaluate_transpose,
                                    .operand_map = map_transpose,
                                    .keeps_rows_apart = rows_of_transpose};

}  // namespace operations
}  // namespace pto
