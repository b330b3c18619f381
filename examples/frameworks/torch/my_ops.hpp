// SPDX-License-Identifier: Apache-2.0
// Shared by the sources of this extension: how many blocks, the element types, the operators that
// gradients call.
//
//     MY_OPS_DISPATCH(x, Element, EXEC_KERNEL_CMD(ReluKernel<Element>, blocks(n), x, x, n));
//
// Thread safety: pure functions.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/library.h>
#include <torch_npu/csrc/framework/utils/OpAdapter.h>

namespace my_ops {

inline int64_t blocks(int64_t elements) {  // one for each 16 Ki elements, at most 24
  return std::clamp<int64_t>(elements >> 14, 1, 24);
}

// Runs the statement with `Element` as the kernel's type for the tensor's.
#define MY_OPS_CASE(scalar_type, Element, Type, ...) \
  case scalar_type: {                                \
    using Element = Type;                            \
    __VA_ARGS__;                                     \
    break;                                           \
  }
#define MY_OPS_DISPATCH_FLOAT(tensor, Element, ...)                                           \
  switch ((tensor).scalar_type()) {                                                           \
    MY_OPS_CASE(at::kFloat, Element, float, __VA_ARGS__)                                      \
    MY_OPS_CASE(at::kDouble, Element, double, __VA_ARGS__)                                    \
    default:                                                                                  \
      TORCH_CHECK_TYPE(false, __func__, ": the tensor has the type ", (tensor).scalar_type(), \
                       ", its kernel is for float and double\n",                              \
                       "  why: a kernel reads one type of element\n  fix: use x.float()");    \
  }
#define MY_OPS_DISPATCH(tensor, Element, ...)                                                 \
  switch ((tensor).scalar_type()) {                                                           \
    MY_OPS_CASE(at::kFloat, Element, float, __VA_ARGS__)                                      \
    MY_OPS_CASE(at::kDouble, Element, double, __VA_ARGS__)                                    \
    MY_OPS_CASE(at::kHalf, Element, ::pto::isa::half, __VA_ARGS__)                            \
    MY_OPS_CASE(at::kInt, Element, int32_t, __VA_ARGS__)                                      \
    default:                                                                                  \
      TORCH_CHECK_TYPE(false, __func__, ": the tensor has the type ", (tensor).scalar_type(), \
                       ", its kernels are for float, double, half ",                          \
                       "and int\n  why: a kernel reads one type of element\n",                \
                       "  fix: convert the tensor first");                                    \
  }

// The tensors must agree in type; PyTorch's dispatcher does not look at that, nor at devices.
inline void check_alike(const char* name, const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK_TYPE(x.scalar_type() == y.scalar_type(), name, ": one tensor is ", x.scalar_type(),
                   ", another ", y.scalar_type(),
                   "\n  why: a kernel reads one type of element\n  fix: convert one of them");
  TORCH_CHECK(x.device() == y.device(), name, ": one tensor is on ", x.device(), ", another on ",
              y.device(), "\n  why: all tensors of a call lie on one device\n  fix: move one");
}

}  // namespace my_ops
