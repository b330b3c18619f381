// SPDX-License-Identifier: Apache-2.0
// PyTorch's own operators that have a kernel on npu devices; all others fall back to the CPU's.
#include <ATen/ops/_log_softmax_backward_data_native.h>
#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_softmax_backward_data_native.h>
#include <ATen/ops/_softmax_native.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/addmm_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/cos_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/exp_native.h>
#include <ATen/ops/gelu_backward_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/leaky_relu_native.h>
#include <ATen/ops/log_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/mean_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mm_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/reciprocal_native.h>
#include <ATen/ops/rsqrt_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/silu_backward_native.h>
#include <ATen/ops/silu_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/sum_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/tanh_native.h>
#include <ATen/ops/threshold_backward_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>

#include "pto/adapters/torch/npu/direct.hpp"
#include "pto/adapters/torch/npu/kernels.hpp"
#include "pto/adapters/torch/npu/registration.hpp"

namespace pto::torch_npu {
namespace {

using at::Tensor;

void register_written(torch::Library& m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("view", &at::native::view);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("set_", &set_);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, c10::Storage)>(&at::native::set_));
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  m.impl("copy_", &copy_);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("fill_.Scalar", &fill_);
  m.impl("zero_", &zero_);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("record_stream", &record_stream);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
  m.impl("native_layer_norm", &layer_norm);
  m.impl("_scaled_dot_product_fused_attention_overrideable", &attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attention_backward);
}

// clang-format off
void register_direct(torch::Library& m) {
#define PTO_DIRECT(name, kernel, cost) Direct<at::native::kernel, "aten::" name, Cost::cost>
#define PTO_FUNCTIONAL(name, kernel, cost) m.impl(name, &PTO_DIRECT(name, kernel, cost)::functional)
#define PTO_IN_PLACE(name, kernel, cost) m.impl(name, &PTO_DIRECT(name, kernel, cost)::in_place)
  PTO_FUNCTIONAL("add.Tensor", structured_ufunc_add_CPU, Elementwise);
  PTO_IN_PLACE("add_.Tensor", structured_ufunc_add_CPU, Elementwise);
  PTO_FUNCTIONAL("sub.Tensor", structured_sub_out, Elementwise);
  PTO_IN_PLACE("sub_.Tensor", structured_sub_out, Elementwise);
  PTO_FUNCTIONAL("mul.Tensor", structured_mul_out, Elementwise);
  PTO_IN_PLACE("mul_.Tensor", structured_mul_out, Elementwise);
  PTO_FUNCTIONAL("div.Tensor", structured_div_out, Elementwise);
  PTO_IN_PLACE("div_.Tensor", structured_div_out, Elementwise);
  PTO_FUNCTIONAL("maximum", structured_maximum_out, Elementwise);
  PTO_FUNCTIONAL("minimum", structured_minimum_out, Elementwise);
  PTO_FUNCTIONAL("gelu", structured_gelu_out_cpu, Elementwise);
  PTO_IN_PLACE("gelu_", structured_gelu_out_cpu, Elementwise);
  PTO_FUNCTIONAL("silu", structured_silu_out, Elementwise);
  PTO_IN_PLACE("silu_", structured_silu_out, Elementwise);
  PTO_FUNCTIONAL("tanh", structured_tanh_out, Elementwise);
  PTO_IN_PLACE("tanh_", structured_tanh_out, Elementwise);
  PTO_FUNCTIONAL("sigmoid", structured_sigmoid_out, Elementwise);
  PTO_IN_PLACE("sigmoid_", structured_sigmoid_out, Elementwise);
  PTO_FUNCTIONAL("exp", structured_exp_out, Elementwise);
  PTO_IN_PLACE("exp_", structured_exp_out, Elementwise);
  PTO_FUNCTIONAL("log", structured_log_out, Elementwise);
  PTO_IN_PLACE("log_", structured_log_out, Elementwise);
  PTO_FUNCTIONAL("sqrt", structured_sqrt_out, Elementwise);
  PTO_IN_PLACE("sqrt_", structured_sqrt_out, Elementwise);
  PTO_FUNCTIONAL("rsqrt", structured_rsqrt_out, Elementwise);
  PTO_IN_PLACE("rsqrt_", structured_rsqrt_out, Elementwise);
  PTO_FUNCTIONAL("neg", structured_neg_out, Elementwise);
  PTO_IN_PLACE("neg_", structured_neg_out, Elementwise);
  PTO_FUNCTIONAL("reciprocal", structured_reciprocal_out, Elementwise);
  PTO_IN_PLACE("reciprocal_", structured_reciprocal_out, Elementwise);
  PTO_FUNCTIONAL("sin", structured_sin_out, Elementwise);
  PTO_IN_PLACE("sin_", structured_sin_out, Elementwise);
  PTO_FUNCTIONAL("cos", structured_cos_out, Elementwise);
  PTO_IN_PLACE("cos_", structured_cos_out, Elementwise);
  PTO_FUNCTIONAL("pow.Tensor_Scalar", structured_pow_Tensor_Scalar_out, Elementwise);
  PTO_FUNCTIONAL("pow.Tensor_Tensor", structured_pow_Tensor_Tensor_out, Elementwise);
  PTO_FUNCTIONAL("leaky_relu", structured_leaky_relu_out, Elementwise);
  PTO_FUNCTIONAL("clamp_min", structured_clamp_min_out, Elementwise);
  PTO_IN_PLACE("clamp_min_", structured_clamp_min_out, Elementwise);
  PTO_FUNCTIONAL("addcmul", structured_addcmul_out, Elementwise);
  PTO_IN_PLACE("addcmul_", structured_addcmul_out, Elementwise);
  PTO_FUNCTIONAL("addcdiv", structured_addcdiv_out, Elementwise);
  PTO_IN_PLACE("addcdiv_", structured_addcdiv_out, Elementwise);
  PTO_FUNCTIONAL("gelu_backward", structured_gelu_backward_out_cpu, Elementwise);
  PTO_FUNCTIONAL("silu_backward", structured_silu_backward_out, Elementwise);
  PTO_FUNCTIONAL("tanh_backward", structured_tanh_backward_out, Elementwise);
  PTO_FUNCTIONAL("sigmoid_backward", structured_sigmoid_backward_out, Elementwise);
  PTO_FUNCTIONAL("threshold_backward", structured_threshold_backward_out, Elementwise);
  PTO_FUNCTIONAL("sum.dim_IntList", structured_sum_out, Elementwise);
  PTO_FUNCTIONAL("mean.dim", structured_mean_out, Elementwise);
  PTO_FUNCTIONAL("_softmax", structured_softmax_cpu_out, Elementwise);
  PTO_FUNCTIONAL("_log_softmax", structured_log_softmax_cpu_out, Elementwise);
  PTO_FUNCTIONAL("_softmax_backward_data", structured_softmax_backward_cpu_out, Elementwise);
  PTO_FUNCTIONAL("_log_softmax_backward_data", structured_log_softmax_backward_cpu_out, Elementwise);
  PTO_FUNCTIONAL("mm", structured_mm_out_cpu, Product);
  PTO_FUNCTIONAL("addmm", structured_addmm_out_cpu, Product);
  PTO_FUNCTIONAL("bmm", structured_bmm_out_cpu, Product);
#undef PTO_IN_PLACE
#undef PTO_FUNCTIONAL

  using Relu = PTO_DIRECT("relu", structured_clamp_min_out, Elementwise);
  m.impl("relu", [](const Tensor& self) { return Relu::functional(self, 0); });
  m.impl("relu_", [](Tensor& self) -> Tensor& { return Relu::in_place(self, 0); });
#undef PTO_DIRECT
}
// clang-format on

}  // namespace

void register_kernels() {
  torch::Library& m = kernel_library("aten", c10::DispatchKey::PrivateUse1);
  register_attention();
  register_written(m);
  register_direct(m);
}

}  // namespace pto::torch_npu
