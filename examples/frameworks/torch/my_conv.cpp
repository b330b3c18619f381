// SPDX-License-Identifier: Apache-2.0
// my_conv and its gradients for input, weight and bias.
#include "my_ops.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "conv_kernels.hpp"

namespace my_ops::conv {
namespace {

Conv conv_of(const at::Tensor& x, const at::Tensor& weight, int64_t stride, int64_t padding) {
  TORCH_CHECK_VALUE(x.dim() == 4 && weight.dim() == 4 && x.size(1) == weight.size(1),
                    "my_conv: x has ", x.sizes(), " and weight ", weight.sizes(),
                    "\n  why: they are [n, c, h, w] and [o, c, kh, kw]\n  fix: reshape one");
  TORCH_CHECK_VALUE(stride > 0 && padding >= 0, "my_conv: stride ", stride, ", padding ", padding,
                    "\n  why: a stride is at least 1, a padding 0\n  fix: correct them");
  const Conv conv{x.size(0),      x.size(1),      x.size(2), x.size(3), weight.size(0),
                  weight.size(2), weight.size(3), stride,    padding};
  TORCH_CHECK_VALUE(conv.h + 2 * padding >= conv.kh && conv.w + 2 * padding >= conv.kw,
                    "my_conv: a filter of ", conv.kh, " x ", conv.kw, " on ", conv.h, " x ", conv.w,
                    " pixels with padding ", padding,
                    "\n  why: it does not fit once\n  fix: add padding");
  check_alike("my_conv", x, weight);
  return conv;
}

#define MY_CONV_ARGUMENTS(conv) \
  conv.n, conv.c, conv.h, conv.w, conv.o, conv.kh, conv.kw, conv.stride, conv.padding

at::Tensor my_conv(const at::Tensor& x, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias, int64_t stride, int64_t padding) {
  const Conv conv = conv_of(x, weight, stride, padding);
  at::Tensor out = at::empty({conv.n, conv.o, conv.out_h(), conv.out_w()}, x.options());
  const at::Tensor dense = x.contiguous(), filter = weight.contiguous();
  const int64_t count = blocks(out.numel() * conv.c * conv.kh * conv.kw);
  if (bias.has_value() && bias->defined()) {
    check_alike("my_conv", x, *bias);
    TORCH_CHECK_VALUE(bias->dim() == 1 && bias->numel() == conv.o, "my_conv: bias has ",
                      bias->sizes(), ", weight has ", conv.o,
                      " filters\n  why: it has one number a filter\n  fix: reshape it");
    const at::Tensor line = bias->contiguous();
    MY_OPS_DISPATCH_FLOAT(x, Element,
                          EXEC_KERNEL_CMD(ConvKernel<Element>, count, out, dense, filter, line,
                                          MY_CONV_ARGUMENTS(conv)));
  } else {
    MY_OPS_DISPATCH_FLOAT(x, Element,
                          EXEC_KERNEL_CMD(ConvKernel<Element>, count, out, dense, filter, nullptr,
                                          MY_CONV_ARGUMENTS(conv)));
  }
  return out;
}

// Gradients that nobody wants are empty tensors.
std::tuple<at::Tensor, at::Tensor, at::Tensor> my_conv_backward(const at::Tensor& d_out,
                                                                const at::Tensor& x,
                                                                const at::Tensor& weight,
                                                                int64_t stride, int64_t padding,
                                                                std::array<bool, 3> wanted) {
  const Conv conv = conv_of(x, weight, stride, padding);
  check_alike("my_conv_backward", x, d_out);
  const at::Tensor d = d_out.contiguous(), dense = x.contiguous(), filter = weight.contiguous();
  const auto made = [&](bool is_wanted, at::IntArrayRef sizes) {
    return at::empty(is_wanted ? sizes : at::IntArrayRef{0}, x.options());
  };
  at::Tensor d_x = made(wanted[0], x.sizes()), d_weight = made(wanted[1], weight.sizes()),
             d_bias = made(wanted[2], {conv.o});
  const int64_t count = blocks(d_out.numel() * conv.c * conv.kh * conv.kw);
  MY_OPS_DISPATCH_FLOAT(x, Element, {
    if (wanted[0]) {
      EXEC_KERNEL_CMD(ConvInputGradient<Element>, count, d_x, d, filter, MY_CONV_ARGUMENTS(conv));
    }
    if (wanted[1]) {
      EXEC_KERNEL_CMD(ConvWeightGradient<Element>, count, d_weight, d, dense,
                      MY_CONV_ARGUMENTS(conv));
    }
    if (wanted[2]) {
      EXEC_KERNEL_CMD(ConvBiasGradient<Element>, count, d_bias, d, conv.n, conv.o,
                      conv.out_h() * conv.out_w());
    }
  });
  return {d_x, d_weight, d_bias};
}

void add_kernels(torch::Library& m) {
  m.impl("my_conv", my_conv);
  m.impl("my_conv_backward", my_conv_backward);
}

}  // namespace
}  // namespace my_ops::conv

TORCH_LIBRARY_IMPL(my_ops, CPU, m) { my_ops::conv::add_kernels(m); }
TORCH_LIBRARY_IMPL(my_ops, PrivateUse1, m) { my_ops::conv::add_kernels(m); }
