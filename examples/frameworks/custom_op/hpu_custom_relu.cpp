// SPDX-License-Identifier: Apache-2.0
// torch.ops.custom_op.custom_relu(x): a declarative custom operator with its gradient.
//
// Descriptions of inputs, outputs and parameters say everything; the kernels are those of the names
// relu_fwd_f32, relu_bwd_bf16 and the like. The shapes serve torch.compile too: no meta kernel.
#include "hpu_custom_op.h"
// The public API includes these structures of parameters.
#include <perf_lib_layer_params.h>
#include <torch/csrc/autograd/custom_function.h>

namespace {

using habana::custom_op::HabanaCustomOpDescriptor;
using habana::custom_op::input_type;
using habana::custom_op::InputDesc;
using habana::custom_op::OutputDesc;

// Types differ in the outputs' descriptions, so each type has a description of its own.
std::string name_for(const char* name, c10::ScalarType type) {
  return std::string("custom_op::") + name + "_" + c10::toString(type);
}

bool register_for(c10::ScalarType type) {
  const auto shape = [](const at::Stack& inputs) { return inputs[0].toTensor().sizes().vec(); };
  const auto params = [](const at::Stack&, size_t& size) {
    HPU_PARAMS_STUB(ns_ReluKernel::Params);
    params->threshold.f = 0.0;
    return params;
  };
  const std::vector<OutputDesc> outputs{{0, type, shape}};
  const std::vector<InputDesc> forward{{input_type::TENSOR, 0}};
  REGISTER_CUSTOM_OP_ATTRIBUTES(name_for("relu", type), "relu_fwd", forward, outputs, params);
  const std::vector<InputDesc> backward{
      {input_type::TENSOR, 0}, {input_type::TENSOR, 1}, {input_type::SCALAR, 2}};
  REGISTER_CUSTOM_OP_ATTRIBUTES(name_for("relu_backward", type), "relu_bwd", backward, outputs,
                                nullptr);
  return true;
}

const bool kReluIsRegistered = register_for(c10::kFloat) && register_for(c10::kBFloat16) &&
                               register_for(c10::kHalf) && register_for(c10::kDouble);

at::Tensor custom_relu(const at::Tensor& x) {
  const auto relu =
      HabanaCustomOpDescriptor::getCustomOpDescriptor(name_for("relu", x.scalar_type()));
  return relu.execute({x})[0];
}

at::Tensor custom_relu_backward(const at::Tensor& grad, const at::Tensor& x,
                                const c10::Scalar& threshold) {
  const auto backward =
      HabanaCustomOpDescriptor::getCustomOpDescriptor(name_for("relu_backward", x.scalar_type()));
  return backward.execute({grad, x, threshold.toDouble()})[0];
}

// The gradient: calls the operators below autograd, through PyTorch, so that they can be traced.
class CustomRelu : public torch::autograd::Function<CustomRelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    static const auto relu = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("custom_op::custom_relu", "")
                                 .typed<decltype(custom_relu)>();
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x});
    return relu.call(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    static const auto backward = c10::Dispatcher::singleton()
                                     .findSchemaOrThrow("custom_op::custom_relu_backward", "")
                                     .typed<decltype(custom_relu_backward)>();
    return {backward.call(grads[0], context->get_saved_variables()[0], 0.0)};
  }
};

at::Tensor custom_relu_with_gradient(const at::Tensor& x) { return CustomRelu::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(custom_op, m) {
  m.def("custom_relu(Tensor self) -> Tensor");
  m.def("custom_relu_backward(Tensor grad, Tensor self, Scalar threshold) -> Tensor");
}
TORCH_LIBRARY_IMPL(custom_op, HPU, m) {
  m.impl("custom_relu", custom_relu);
  m.impl("custom_relu_backward", custom_relu_backward);
}
TORCH_LIBRARY_IMPL(custom_op, AutogradHPU, m) { m.impl("custom_relu", custom_relu_with_gradient); }
