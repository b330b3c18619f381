// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/native_layer_norm_native.h>

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/kernels.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {

using at::IntArrayRef;
using at::Tensor;

Tensor convolution(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups) {
  const int device = input.device().index();
  current_stream(device).wait();
  const at::AutoDispatchBelowADInplaceOrView below;
  Aliases aliases;
  const auto cpu = [&](const Tensor& t) { return t.defined() ? aliases.add(t) : t; };
  return aliases.wrap(
      at::convolution(cpu(input), cpu(weight), bias ? optional<Tensor>(cpu(*bias)) : bias, stride,
                      padding, dilation, transposed, output_padding, groups),
      device);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& d_output, const Tensor& input,
                                                        const Tensor& weight, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation,
                                                        bool transposed, IntArrayRef output_padding,
                                                        int64_t groups,
                                                        std::array<bool, 3> wanted) {
  const int device = input.device().index();
  current_stream(device).wait();
  const at::AutoDispatchBelowADInplaceOrView below;
  Aliases aliases;
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const auto [d_input, d_weight, d_bias] =
      at::convolution_backward(aliases.add(d_output), aliases.add(input), aliases.add(weight),
                               at::OptionalIntArrayRef({channels}), stride, padding, dilation,
                               transposed, output_padding, groups, wanted);
  return {aliases.wrap(d_input, device), aliases.wrap(d_weight, device),
          aliases.wrap(d_bias, device)};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& input, IntArrayRef shape,
                                              const optional<Tensor>& weight,
                                              const optional<Tensor>& bias, double epsilon) {
  Placement place("aten::native_layer_norm");
  for (const Tensor& tensor : {input, weight.value_or(Tensor()), bias.value_or(Tensor())}) {
    place.note(tensor);
  }
  const int device = place.device();
  current_stream(device).wait();
  const at::AutoDispatchBelowADInplaceOrView below;
  Aliases aliases;
  const auto cpu = [&](const optional<Tensor>& t) {
    return t && t->defined() ? optional<Tensor>(aliases.add(*t)) : t;
  };
  const auto [y, mean, rstd] =
      at::native::layer_norm_cpu(aliases.add(input), shape, cpu(weight), cpu(bias), epsilon);
  return {aliases.wrap(y, device), aliases.wrap(mean, device), aliases.wrap(rstd, device)};
}

}  // namespace pto::torch_npu
