// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention: the CPU's fused kernel if that takes the arguments, else PyTorch's
// composition. The CPU makes the choice.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/kernels.hpp"
#include "pto/adapters/torch/npu/placement.hpp"
#include "pto/device/npu/stream.hpp"

namespace pto::torch_npu {

using at::Tensor;

namespace {

int64_t choice(const Tensor& query, const Tensor& key, const Tensor& value,
               const optional<Tensor>& mask, double dropout, bool is_causal, optional<double> scale,
               bool grouped) {
  // Passes the tensors themselves, not aliases: they may be fake, with unknown sizes.
  const int64_t chosen = at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout,
                                                           is_causal, scale, grouped);
  const bool needs_mask_gradient = mask && mask->requires_grad();
  const bool is_fused =
      !needs_mask_gradient && chosen == static_cast<int64_t>(sdp::SDPBackend::flash_attention);
  return static_cast<int64_t>(is_fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

}  // namespace

void register_attention() {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choice);
}

namespace {

// Gives results the strides of PyTorch's fake tensors for these operators, on which compiled
// programs rely: those of `like`, or dense in the order of the axes.
Tensor laid_out_as(const Tensor& like, const Tensor& result) {
  const Tensor same = at::empty_like(like);
  return same.strides() == result.strides() ? result : same.copy_(result);
}

optional<Tensor> given(Aliases& aliases, const Tensor& mask) {
  return mask.defined() ? optional<Tensor>(aliases.add(mask)) : optional<Tensor>();
}

}  // namespace

Attention attention(const Tensor& query, const Tensor& key, const Tensor& value,
                    const optional<Tensor>& bias, double dropout, bool is_causal, bool,
                    optional<double> scale) {
  Placement place("aten::scaled_dot_product_attention");
  place.note(query), place.note(key), place.note(value), place.note(bias.value_or(Tensor()));
  const int device = place.device();
  current_stream(device).wait();
  const at::AutoDispatchBelowADInplaceOrView below;
  Aliases aliases;
  const Tensor q = aliases.add(query);
  const auto [result, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      q, aliases.add(key), aliases.add(value), dropout, is_causal,
      given(aliases, bias.value_or(Tensor())), scale);
  const auto zero = [&] { return aliases.wrap(at::zeros({}, at::kLong), device); };
  const Tensor none;
  return {aliases.wrap(laid_out_as(q, result), device),
          aliases.wrap(sums.contiguous(), device),
          none,
          none,
          query.size(2),
          key.size(2),
          zero(),  // seed and offset of a random mask, which there is none of
          zero(),
          none};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& d_result, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, std::array<bool, 4> wanted, const Tensor& result, const Tensor& sums,
    const Tensor&, const Tensor&, int64_t, int64_t, double dropout, bool is_causal, const Tensor&,
    const Tensor&, optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !wanted[3],
      error_message("npu: the gradient of an attention mask was asked for",
                    "the fused kernel has none", "use torch.nn.attention.sdpa_kernel(MATH)"));
  const int device = query.device().index();
  current_stream(device).wait();
  const at::AutoDispatchBelowADInplaceOrView below;
  Aliases aliases;
  const Tensor q = aliases.add(query), k = aliases.add(key), v = aliases.add(value);
  const auto [d_query, d_key, d_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      aliases.add(d_result), q, k, v, aliases.add(result), aliases.add(sums), dropout, is_causal,
      given(aliases, bias), scale);
  const auto wrapped = [&](const Tensor& like, const Tensor& d) {
    return aliases.wrap(laid_out_as(like, d), device);
  };
  return {wrapped(q, d_query), wrapped(k, d_key), wrapped(v, d_value), Tensor()};
}

}  // namespace pto::torch_npu
