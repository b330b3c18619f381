// SPDX-License-Identifier: Apache-2.0
// torch.ops.custom_op.custom_add(x, y): shapes that broadcast, registered at the first call, as
// older sources do.
#include "hpu_custom_op.h"
// For at::infer_size.
#include <ATen/ExpandUtils.h>

namespace {

using habana::custom_op::HabanaCustomOpDescriptor;
using habana::custom_op::input_type;
using habana::custom_op::InputDesc;
using habana::custom_op::OutputDesc;

bool register_custom_add() {
  const std::vector<InputDesc> inputs{{input_type::TENSOR, 0}, {input_type::TENSOR, 1}};
  const std::vector<OutputDesc> outputs{{0, c10::ScalarType::Float, [](const at::Stack& stack) {
                                           return at::infer_size(stack[0].toTensor().sizes(),
                                                                 stack[1].toTensor().sizes());
                                         }}};
  REGISTER_CUSTOM_OP_ATTRIBUTES("custom_op::custom_add", "add_fwd_f32", inputs, outputs, nullptr);
  return true;
}

at::Tensor custom_add(const at::Tensor& x, const at::Tensor& y) {
  static const bool is_registered = register_custom_add();
  TORCH_CHECK(is_registered);
  return HabanaCustomOpDescriptor::getCustomOpDescriptor("custom_op::custom_add")
      .execute({x, y})[0];
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(custom_op, m) { m.def("custom_add(Tensor x, Tensor y) -> Tensor"); }
TORCH_LIBRARY_IMPL(custom_op, HPU, m) { m.impl("custom_add", custom_add); }
