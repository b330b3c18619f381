// SPDX-License-Identifier: Apache-2.0
// Tensors that are computed from their shape alone.
#include "pto/base/strided.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_iota(const Node& node, const Operands&) {
  require_one_axis(node, node.type.shape);
  if (node.type.dtype == DType::I64) return node.type;
  fail({"iota: the result is " + text(node.type), "positions are i64", "cast the result"},
       ErrorKind::Type);
}

std::vector<Bounded> evaluate_iota(Evaluation& in, const Node& node) {
  Bounded out = in.empty(DType::I64, in.sizes(node.type.shape));
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  const int64_t inner = dense_strides(out.array.shape)[axis], size = out.array.shape[axis];
  for (size_t i = 0; i < out.array.size(); ++i)
    out.array.integers[i] = static_cast<int64_t>(i) / inner % size;
  return one_result(std::move(out));
}

Type infer_empty(const Node& node, const Operands&) { return node.type; }

std::vector<Bounded> evaluate_empty(Evaluation& in, const Node& node) {
  return one_result(in.empty(node.type.dtype, in.sizes(node.type.shape)));
}

}  // namespace

namespace operations {

constinit const Operation iota{.info = {"iota", "", Family::Structure, 0},
                               .field = Field::Axes,
                               .kernel = KernelForm::Position,
                               .infer = infer_iota,
                               .evaluate = evaluate_iota};
constinit const Operation empty{.info = {"empty", "", Family::Structure, 0},
                                .field = Field::Index,
                                .kernel = KernelForm::Step,
                                .infer = infer_empty,
                                .evaluate = evaluate_empty};

}  // namespace operations
}  // namespace pto
