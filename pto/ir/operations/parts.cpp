// SPDX-License-Identifier: Apache-2.0
// Parts of tensors: a view reads one, an update gives the tensor with another part in it, concat
// joins parts along an axis.
#include <algorithm>
#include <cmath>

#include "pto/base/evaluate_sizes.hpp"
#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

// Checks the offsets, the operands from `first` on, and that a part of these sizes can lie inside.
void require_part(const Node& node, const Operands& operands, size_t first, const Dims& part) {
  const Dims& whole = type(operands, 0).shape;
  const std::vector<int64_t>& steps = node.attributes.axes;
  if (!steps.empty() && (steps.size() != whole.size() ||
                         std::any_of(steps.begin(), steps.end(), [](int64_t k) { return k < 1; })))
    fail({label(node.op) + ": the steps " +
              joined(steps, ", ", [](int64_t step) { return text(step); }) + " for shape " +
              text(whole),
          "a part has a step of 1 or more for each axis, or none", "give a step for every axis"});
  const std::string about = label(node.op) + ": axis ";
  const Dims span = span_of(part, steps);
  for (size_t i = 0; i < whole.size(); ++i) {
    require_scalar(node.op, type(operands, first + i), "an offset");
    if (whole[i].is_constant() && span[i].is_constant() && span[i].value() > whole[i].value())
      fail({about + std::to_string(i) + " of shape " + text(whole) + " cannot hold " + text(part),
            "a view lies inside its tensor", "make the view smaller"});
  }
}

// Returns the places of a part in a dense `whole`; the offsets are the operands from `first` on.
std::vector<size_t> places_of_part(const Evaluation& in, const Node& node, size_t first,
                                   const std::vector<int64_t>& whole,
                                   const std::vector<int64_t>& part) {
  auto strides = dense_strides(whole);
  int64_t start = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    const int64_t offset = in.operand(node, first + i).array.integers[0];
    const int64_t step = node.attributes.axes.empty() ? 1 : node.attributes.axes[i];
    const int64_t span = part[i] * step - (step - 1);
    if (offset < 0 || part[i] < 0 || offset > whole[i] - span)
      fail(outside_part(label(node.op), static_cast<int64_t>(i), offset, span, whole[i]),
           ErrorKind::Index);
    start += offset * strides[i];
    strides[i] *= step;
  }
  return places(part, strides, start);
}

// Elements at an offset that compiled code may compute differently may have any value.
void allow_offsets(const Evaluation& in, const Node& node, size_t first, Bounded& out) {
  for (size_t i = first; in.with_bounds() && i < node.operands.size(); ++i)
    if (in.operand(node, i).bounds[0] > 0) allow_any_value(out);
}

void put(const Evaluation& in, const Bounded& part, const std::vector<size_t>& where,
         Bounded& out) {
  for (size_t i = 0; i < where.size(); ++i) {
    out.array.set(where[i], part.array.at(i));
    if (in.with_bounds()) out.bounds[where[i]] = part.bounds[i];
  }
}

// --- view ----------------------------------------------------------------------------------------

Type infer_view(const Node& node, const Operands& operands) {
  if (operands.empty())
    fail({"view: has no operands", "a view takes a tensor and offsets", "pass the tensor"});
  const Dims &from = type(operands, 0).shape, &to = node.type.shape;
  if (operands.size() != from.size() + 1 || to.size() != from.size())
    fail({"view: shape " + text(from) + ", view " + text(to) + ", " +
              std::to_string(operands.size() - 1) + " offsets",
          "a view has one offset and one size for each axis", "give an offset for every axis"});
  require_part(node, operands, 1, to);
  return {type(operands, 0).dtype, to};
}

std::vector<Bounded> evaluate_view(Evaluation& in, const Node& node) {
  const Bounded& from = in.operand(node, 0);
  const auto shape = in.sizes(node.type.shape);
  Bounded out = in.gather(from, shape, places_of_part(in, node, 1, from.array.shape, shape));
  allow_offsets(in, node, 1, out);
  return one_result(std::move(out));
}

// --- update --------------------------------------------------------------------------------------

Type infer_update(const Node& node, const Operands& operands) {
  if (operands.size() < 2)
    fail({"update: has " + std::to_string(operands.size()) + " operands",
          "an update takes a tensor, a part and offsets", "pass the tensor and the part"});
  const Type &into = type(operands, 0), &part = type(operands, 1);
  require_same_dtype(node.op, into, part);
  if (part.shape.size() != into.shape.size() || operands.size() != into.shape.size() + 2)
    fail({"update: shape " + text(into.shape) + ", part " + text(part.shape) + ", " +
              std::to_string(operands.size() - 2) + " offsets",
          "a part has as many axes as its tensor, and an offset for each",
          "give the part axes of size 1, and an offset for every axis"});
  require_part(node, operands, 2, part.shape);
  return into;
}

std::vector<Bounded> evaluate_update(Evaluation& in, const Node& node) {
  Bounded out = in.operand(node, 0);
  const Bounded& part = in.operand(node, 1);
  put(in, part, places_of_part(in, node, 2, out.array.shape, part.array.shape), out);
  allow_offsets(in, node, 2, out);
  return one_result(std::move(out));
}

// --- concat --------------------------------------------------------------------------------------

Type infer_concat(const Node& node, const Operands& operands) {
  if (operands.empty() || node.attributes.axes.size() != 1)
    fail({"concat: has " + std::to_string(operands.size()) + " operands and " +
              std::to_string(node.attributes.axes.size()) + " axes",
          "tensors stand one behind the other along one axis", "pass a tensor and one axis"});
  Type out = type(operands, 0);
  const int64_t axis = node.attributes.axes[0];
  if (axis < 0 || axis >= static_cast<int64_t>(out.shape.size()))
    fail({"concat: axis " + text(axis) + " of shape " + text(out.shape),
          "the axis counts from 0 and is one of the tensors'", "choose an existing axis"},
         ErrorKind::Index);
  const auto at = static_cast<size_t>(axis);
  for (size_t k = 1; k < operands.size(); ++k) {
    const Type& next = type(operands, k);
    require_same_dtype(node.op, out, next);
    bool fits = next.shape.size() == out.shape.size();
    for (size_t i = 0; fits && i < out.shape.size(); ++i)
      fits = i == at || may_equal(out.shape[i], next.shape[i]);
    if (!fits)
      fail({"concat: shapes " + text(type(operands, 0).shape) + " and " + text(next.shape) +
                " along axis " + text(axis),
            "the other axes have equal sizes", "reshape or slice an operand"});
    out.shape[at] = out.shape[at] + next.shape[at];
  }
  return out;
}

std::vector<SizePair> sizes_of_concat(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs;
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  for (size_t k = 1; k < operands.size(); ++k)
    for (size_t i = 0; i < node.type.shape.size(); ++i)
      if (i != axis) pairs.push_back({type(operands, k).shape[i], node.type.shape[i], false});
  return pairs;
}

std::vector<Bounded> evaluate_concat(Evaluation& in, const Node& node) {
  Bounded out = in.empty(node.type.dtype, in.sizes(node.type.shape));
  const auto dense = dense_strides(out.array.shape);
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  int64_t start = 0;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const Bounded& part = in.operand(node, k);
    put(in, part, places(part.array.shape, dense, start), out);
    start += part.array.shape[axis] * dense[axis];
  }
  return one_result(std::move(out));
}

}  // namespace

Dims span_of(const Dims& part, const std::vector<int64_t>& steps) {
  Dims span = part;
  for (size_t i = 0; i < std::min(span.size(), steps.size()); ++i)
    if (steps[i] != 1) span[i] = span[i] * Dim(steps[i]) - Dim(steps[i] - 1);
  return span;
}

namespace operations {

constinit const Operation view{.info = {"view", "", Family::Structure, -1},
                               .field = Field::Steps,
                               .kernel = KernelForm::Part,
                               .infer = infer_view,
                               .evaluate = evaluate_view};
constinit const Operation update{.info = {"update", "", Family::Structure, -1},
                                 .field = Field::Steps,
                                 .kernel = KernelForm::Step,
                                 .infer = infer_update,
                                 .evaluate = evaluate_update};
constinit const Operation concat{.info = {"concat", "", Family::Structure, -1},
                                 .field = Field::Axes,
                                 .kernel = KernelForm::Step,
                                 .infer = infer_concat,
                                 .sizes = sizes_of_concat,
                                 .evaluate = evaluate_concat};

}  // namespace operations
}  // namespace pto
