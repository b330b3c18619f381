// SPDX-License-Identifier: Apache-2.0
// Hand-written kernels: those that a device must have itself, and those that PyTorch hands over
// whole. Arguments and results are those of the operators of the same names.
//
//     at::Tensor x = empty({2, 3}, at::kFloat, {}, npu(0), {}, {});
//
// Invariant: copies and fills run in the order of the current stream; all others wait for it.
// Thread safety: any thread may call every function.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/core/SymInt.h>

#include <array>
#include <optional>
#include <tuple>

namespace pto::torch_npu {

using std::optional;

at::Tensor empty(at::IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                 optional<c10::Device> device, optional<bool> pin_memory,
                 optional<at::MemoryFormat> format);
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                         optional<c10::Device> device, optional<bool> pin_memory);
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking);
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to);
at::Tensor& fill_(at::Tensor& self, const at::Scalar& value);
at::Tensor& zero_(at::Tensor& self);
at::Scalar local_scalar_dense(const at::Tensor& self);
at::Tensor& set_(at::Tensor& self);
void record_stream(at::Tensor& self, c10::Stream stream);

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups);
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& d_output, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted);
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& input,
                                                          at::IntArrayRef shape,
                                                          const optional<at::Tensor>& weight,
                                                          const optional<at::Tensor>& bias,
                                                          double epsilon);

using Attention = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
                             c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;
Attention attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const optional<at::Tensor>& bias, double dropout, bool is_causal,
                    bool return_debug_mask, optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& d_result, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& bias, std::array<bool, 4> wanted,
    const at::Tensor& result, const at::Tensor& sums, const at::Tensor& starts_query,
    const at::Tensor& starts_key, int64_t longest_query, int64_t longest_key, double dropout,
    bool is_causal, const at::Tensor& seed, const at::Tensor& offset, optional<double> scale);

// Lets PyTorch choose attention() where the CPU would choose its fused kernel.
void register_attention();

}  // namespace pto::torch_npu
