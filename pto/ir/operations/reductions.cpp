// SPDX-License-Identifier: Apache-2.0
// Reductions: fold the elements along some axes, which stay with size 1.
#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/bounds.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_reduce(const Node& node, const Operands& operands) {
  const Type& from = type(operands, 0);
  require_dtype(node.op, from.dtype);
  const auto& axes = node.attributes.axes;
  if (normal_axes(node.op, axes, from.shape.size()) != axes)
    fail({label(node.op) + ": axes " + text(axes) + " are not in order",
          "the axes of a node count from the front and increase", "sort the axes"});
  Type to = from;
  for (const int64_t axis : axes) to.shape[static_cast<size_t>(axis)] = 1;
  return to;
}

std::vector<Bounded> evaluate_reduce(Evaluation& in, const Node& node) {
  const Bounded& from = in.operand(node, 0);
  const auto dense = dense_strides(from.array.shape);
  std::vector<int64_t> kept = from.array.shape, inner, inner_strides;
  for (const int64_t axis : node.attributes.axes) {
    kept[static_cast<size_t>(axis)] = 1;
    inner.push_back(from.array.shape[static_cast<size_t>(axis)]);
    inner_strides.push_back(dense[static_cast<size_t>(axis)]);
  }
  Bounded out = in.empty(node.type.dtype, kept);
  const auto starts = places(kept, dense), steps = places(inner, inner_strides);
  std::vector<ElementNumber> x(steps.size());
  std::vector<double> b(in.with_bounds() ? steps.size() : 0);
  for (size_t i = 0; i < starts.size(); ++i) {
    for (size_t k = 0; k < steps.size(); ++k) {
      x[k] = from.array.at(starts[i] + steps[k]);
      if (in.with_bounds()) b[k] = from.bounds[starts[i] + steps[k]];
    }
    in.fold_into(out, i, node.op, x, b, steps_of_sum(x.size()));
  }
  return one_result(std::move(out));
}

constexpr Operation reduction_row(OpcodeInfo info, uint32_t dtypes, bool is_exact) {
  return {.info = info,
          .dtypes = dtypes,
          .field = Field::Axes,
          .kernel = KernelForm::Reduction,
          .facts = {.is_exact = is_exact},
          .infer = infer_reduce,
          .evaluate = evaluate_reduce,
          .keeps_rows_apart = has_axes_behind_batch};
}

}  // namespace

namespace operations {

// A product of small integers is soon no small integer.
#define PTO_REDUCE(row, col, part, op, value, zero, numpy, dtypes) \
  constinit const Operation op =                                   \
      reduction_row({#op, #row, Family::Reduce, 1}, dtypes, Opcode::op != Opcode::prod);
#include "pto/isa/instructions.def"

}  // namespace operations
}  // namespace pto
