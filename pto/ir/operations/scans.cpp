// SPDX-License-Identifier: Apache-2.0
// Scans: element i of the result folds the elements 0 .. i of the operand along one axis, in order.
// Floats fold in double, and each element is rounded once.
#include "pto/base/number.hpp"
#include "pto/base/strided.hpp"
#include "pto/ir/bounds.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_scan(const Node& node, const Operands& operands) {
  require_dtype(node.op, type(operands, 0).dtype);
  require_one_axis(node, type(operands, 0).shape);
  return type(operands, 0);
}

template <Opcode op>  // the reduction that folds
std::vector<Bounded> evaluate_scan(Evaluation& in, const Node& node) {
  const Bounded& from = in.operand(node, 0);
  const DType dtype = from.array.dtype;
  Bounded out = in.empty(dtype, from.array.shape);
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  const auto dense = dense_strides(from.array.shape);
  const auto step = static_cast<size_t>(dense[axis]);
  std::vector<int64_t> lines = from.array.shape;
  if (lines[axis] != 0) lines[axis] = 1;
  for (const size_t start : places(lines, dense)) {
    ElementNumber total = identity(op, dtype);
    ReductionBound bound(op, dtype);
    for (size_t k = 0; k < static_cast<size_t>(from.array.shape[axis]); ++k) {
      const size_t i = start + k * step;
      total = fold(op, dtype, total, from.array.at(i));
      out.array.set(i, {round_to(is_float(dtype) ? dtype : DType::F64, total.real), total.integer});
      if (!in.with_bounds()) continue;
      bound.add(from.array.at(i), from.bounds[i]);
      out.bounds[i] = bound.at(static_cast<double>(k + 1), out.array.at(i));
    }
  }
  return one_result(std::move(out));
}

constexpr Operation scan_row(std::string_view name, uint32_t dtypes,
                             std::vector<Bounded> (*evaluate)(Evaluation&, const Node&)) {
  return {.info = {name, "", Family::Structure, 1},
          .dtypes = dtypes,
          .field = Field::Axes,
          .kernel = KernelForm::Step,
          .infer = infer_scan,
          .evaluate = evaluate,
          .keeps_rows_apart = has_axes_behind_batch};
}

}  // namespace

namespace operations {

constinit const Operation cumsum = scan_row("cumsum", kArithmetic, evaluate_scan<Opcode::sum>);
constinit const Operation cumprod = scan_row("cumprod", kArithmetic, evaluate_scan<Opcode::prod>);
constinit const Operation cummax = scan_row("cummax", kOrdered, evaluate_scan<Opcode::amax>);
constinit const Operation cummin = scan_row("cummin", kOrdered, evaluate_scan<Opcode::amin>);

}  // namespace operations
}  // namespace pto
