// SPDX-License-Identifier: Apache-2.0
// Inputs, scalars of the call and constants: a graph computes from these.
#include <cmath>

#include "pto/base/number.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_input(const Node& node, const Operands&) { return node.type; }

Type infer_scalar(const Node& node, const Operands&) {
  if (node.type.shape.empty()) return node.type;
  fail({"scalar: has shape " + text(node.type.shape), "a runtime scalar has rank 0",
        "use an input"});
}

Type infer_constant(const Node& node, const Operands&) {
  const auto& value = node.attributes.value;
  const DType dtype = node.type.dtype;
  const bool fits =
      is_float(dtype)
          ? value.index() == 0 && (std::isnan(std::get<0>(value)) ||
                                   round_to(dtype, std::get<0>(value)) == std::get<0>(value))
          : value.index() == 1 && wrap_to(dtype, std::get<1>(value)) == std::get<1>(value);
  if (fits && node.type.shape.empty()) return node.type;
  fail({"constant: the value " +
            (value.index() == 0 ? text(std::get<0>(value)) : text(std::get<1>(value))) +
            " is not a value of " + text(node.type),
        "a constant has rank 0 and a value that its dtype represents exactly",
        "round the value to the dtype"});
}

std::vector<Bounded> evaluate_constant(Evaluation& in, const Node& node) {
  Bounded out = in.empty(node.type.dtype, {});
  if (const auto* real = std::get_if<double>(&node.attributes.value))
    out.array.set(0, {*real, 0});
  else
    out.array.set(0, {0, std::get<int64_t>(node.attributes.value)});
  return one_result(std::move(out));
}

}  // namespace

namespace operations {

constinit const Operation input{.info = {"input", "", Family::Structure, 0},
                                .kernel = KernelForm::Parameter,
                                .infer = infer_input};
constinit const Operation constant{.info = {"constant", "", Family::Structure, 0},
                                   .field = Field::Value,
                                   .kernel = KernelForm::Constant,
                                   .infer = infer_constant,
                                   .evaluate = evaluate_constant};
constinit const Operation scalar{.info = {"scalar", "", Family::Structure, 0},
                                 .kernel = KernelForm::Parameter,
                                 .infer = infer_scalar};

}  // namespace operations
}  // namespace pto
