// SPDX-License-Identifier: Apache-2.0
// Operators of PyTorch on tile kernels: basic, scalar, several outputs, in place, optional
// arguments, fused, asynchronous. CPU and npu tensors, the latter in the order of the stream.
//
// These functions are for the backends' keys and know nothing of gradients: autograd.cpp has those.
#include "my_ops.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels.hpp"

namespace my_ops {
namespace {

// Walks two tensors that broadcast: rows of columns, the columns being the last axes that
// both have.
struct Walk {
  int64_t rows = 1, columns = 1, axes = 0;

  Walk(at::IntArrayRef sizes, const at::Tensor& x, const at::Tensor& y) {
    const auto rank = static_cast<int64_t>(sizes.size());
    const auto has = [&](const at::Tensor& t, int64_t axis) {
      return t.numel() == 1 || (t.dim() > axis && t.size(-1 - axis) == sizes[rank - 1 - axis]);
    };
    while (axes < rank && has(x, axes) && has(y, axes)) ++axes;
    if (axes == 0 && rank > 0) axes = 1;  // along which one broadcasts
    for (int64_t i = 0; i < rank; ++i) (i < rank - axes ? rows : columns) *= sizes[i];
  }
};

// A tensor with its steps, 0 where it broadcasts. Only one that broadcasts among the rows is
// copied.
struct Operand {
  at::Tensor tensor;
  int64_t row, column;

  Operand(const at::Tensor& given, at::IntArrayRef sizes, const Walk& walk)
      : tensor(given.contiguous()) {
    int64_t tail = 1;
    for (int64_t i = 0; i < walk.axes && i < given.dim(); ++i) tail *= given.size(-1 - i);
    int64_t head = tail == 0 ? walk.rows : given.numel() / tail;
    if ((tail != 1 && tail != walk.columns) || (head != 1 && head != walk.rows)) {
      tensor = given.expand(sizes).contiguous();
      tail = walk.columns;
      head = walk.rows;
    }
    column = tail == 1 && walk.columns != 1 ? 0 : 1;
    row = head == 1 && walk.rows != 1 ? 0 : tail;
  }
};

at::Tensor add(const char* name, const at::Tensor& x, const at::Tensor& y, bool relu) {
  check_alike(name, x, y);
  const std::vector<int64_t> sizes = at::infer_size(x.sizes(), y.sizes());
  at::Tensor out = at::empty(sizes, x.options());
  const Walk walk(sizes, x, y);
  const Operand left(x, sizes, walk), right(y, sizes, walk);
  MY_OPS_DISPATCH(x, Element,
                  EXEC_KERNEL_CMD(AddKernel<Element>, blocks(out.numel()), out, left.tensor,
                                  right.tensor, walk.rows, walk.columns, left.row, left.column,
                                  right.row, right.column, relu));
  return out;
}

at::Tensor my_add(const at::Tensor& x, const at::Tensor& y) { return add("my_add", x, y, false); }

at::Tensor my_add_relu(const at::Tensor& x, const at::Tensor& y) {
  return add("my_add_relu", x, y, true);
}

at::Tensor my_scale(const at::Tensor& x, double factor) {
  const at::Tensor dense = x.contiguous();
  at::Tensor out = at::empty_like(dense);
  MY_OPS_DISPATCH(
      x, Element,
      EXEC_KERNEL_CMD(ScaleKernel<Element>, blocks(x.numel()), out, dense, factor, x.numel()));
  return out;
}

// Equal parts along an axis.
std::vector<at::Tensor> my_split(const at::Tensor& x, int64_t parts, int64_t dim) {
  const int64_t axis = c10::maybe_wrap_dim(dim, x.dim());
  TORCH_CHECK_VALUE(x.dim() > 0 && parts > 0 && x.size(axis) % parts == 0,
                    "my_split: ", x.dim() > 0 ? x.size(axis) : 0, " elements do not make ", parts,
                    " equal parts\n  why: all parts have one size\n  fix: choose a divisor");
  const at::Tensor dense = x.contiguous();
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[static_cast<size_t>(axis)] /= parts;
  int64_t outer = 1, length = 1;
  for (int64_t i = 0; i < x.dim(); ++i) (i < axis ? outer : length) *= x.size(i);
  std::vector<at::Tensor> results;
  for (int64_t part = 0; part < parts; ++part) {
    at::Tensor out = at::empty(sizes, x.options());
    MY_OPS_DISPATCH(x, Element,
                    EXEC_KERNEL_CMD(SplitKernel<Element>, blocks(out.numel()), out, dense, outer,
                                    length, part * (length / parts), length / parts));
    results.push_back(out);
  }
  return results;
}

// Writes where x lies; an x with gaps goes through a copy.
void my_relu_(at::Tensor& x) {
  at::Tensor dense = x.contiguous();
  MY_OPS_DISPATCH(x, Element,
                  EXEC_KERNEL_CMD(ReluKernel<Element>, blocks(x.numel()), dense, dense, x.numel()));
  if (!dense.is_same(x)) x.copy_(dense);
}

at::Tensor my_relu(const at::Tensor& x) {
  const at::Tensor dense = x.contiguous();
  at::Tensor out = at::empty_like(dense);
  MY_OPS_DISPATCH(x, Element,
                  EXEC_KERNEL_CMD(ReluKernel<Element>, blocks(x.numel()), out, dense, x.numel()));
  return out;
}

// An absent tensor is a null pointer.
at::Tensor my_affine(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias) {
  const int64_t columns = x.dim() == 0 ? 1 : x.size(-1);
  const auto given = [&](const std::optional<at::Tensor>& one) {
    if (!one.has_value() || !one->defined()) return at::Tensor();
    check_alike("my_affine", x, *one);
    TORCH_CHECK_VALUE(one->dim() == 1 && one->numel() == columns, "my_affine: weight or bias has ",
                      one->sizes(), ", the last axis of x has ", columns,
                      " elements\n  why: they lie along the last axis\n  fix: reshape it");
    return one->contiguous();
  };
  const at::Tensor dense = x.contiguous(), w = given(weight), b = given(bias);
  at::Tensor out = at::empty_like(dense);
  const int64_t rows = columns == 0 ? 0 : x.numel() / columns;
  const auto launch = [&](const auto& w_or_null, const auto& b_or_null) {
    MY_OPS_DISPATCH(x, Element,
                    EXEC_KERNEL_CMD(AffineKernel<Element>, blocks(x.numel()), out, dense, w_or_null,
                                    b_or_null, rows, columns));
  };
  if (w.defined() && b.defined()) launch(w, b);
  if (w.defined() && !b.defined()) launch(w, nullptr);
  if (!w.defined() && b.defined()) launch(nullptr, b);
  if (!w.defined() && !b.defined()) launch(nullptr, nullptr);
  return out;
}

// Returns while the kernel may still run: on the current stream of the device, behind what is
// queued there. On the CPU a launch has always run when it returns.
at::Tensor my_scale_async(const at::Tensor& x, double factor) {
  const at::Tensor dense = x.contiguous();
  at::Tensor out = at::empty_like(dense);
  aclrtStream stream = nullptr;
  if (x.is_privateuseone()) stream = c10_npu::getCurrentNPUStream(x.get_device());
  MY_OPS_DISPATCH(x, Element,
                  EXEC_KERNEL_ASYNC(ScaleKernel<Element>, blocks(x.numel()), stream, out, dense,
                                    factor, x.numel()));
  return out;
}

// Registered for the CPU alone: npu tensors reach it through PyTorch's fallback.
at::Tensor my_range(const at::Tensor& x) {
  const at::Tensor dense = x.contiguous().to(at::kDouble);
  at::Tensor out = at::empty({2}, dense.options());
  const double* from = dense.const_data_ptr<double>();
  const auto [low, high] = std::minmax_element(from, from + dense.numel());
  TORCH_CHECK_VALUE(dense.numel() > 0, "my_range: x is empty\n  why: nothing has no extremes\n",
                    "  fix: pass a tensor with elements");
  out.mutable_data_ptr<double>()[0] = *low;
  out.mutable_data_ptr<double>()[1] = *high;
  return out;
}

void add_kernels(torch::Library& m) {
  m.impl("my_add", my_add);
  m.impl("my_add_relu", my_add_relu);
  m.impl("my_scale", my_scale);
  m.impl("my_scale_async", my_scale_async);
  m.impl("my_split", my_split);
  m.impl("my_relu", my_relu);
  m.impl("my_relu_", my_relu_);
  m.impl("my_affine", my_affine);
}

}  // namespace
}  // namespace my_ops

// An operator that changes an argument returns nothing: functionalisation, and with it
// torch.compile, refuses those that return what they change. my_ops.py has the usual form.
TORCH_LIBRARY(my_ops, m) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  m.def("my_add(Tensor x, Tensor y) -> Tensor", tags);
  m.def("my_add_relu(Tensor x, Tensor y) -> Tensor", tags);
  m.def("my_scale(Tensor x, float factor) -> Tensor", tags);
  m.def("my_scale_async(Tensor x, float factor) -> Tensor", tags);
  m.def("my_split(Tensor x, int parts, int dim=0) -> Tensor[]", tags);
  m.def("my_relu(Tensor x) -> Tensor", tags);
  m.def("my_relu_(Tensor(a!) x) -> ()", tags);
  m.def("my_affine(Tensor x, Tensor? weight=None, Tensor? bias=None) -> Tensor", tags);
  m.def("my_range(Tensor x) -> Tensor", tags);
  m.def(
      "my_conv(Tensor x, Tensor weight, Tensor? bias=None, SymInt stride=1, SymInt padding=0) "
      "-> Tensor",
      tags);
  m.def(
      "my_conv_backward(Tensor d_out, Tensor x, Tensor weight, SymInt stride, SymInt padding, "
      "bool[3] wanted) -> (Tensor, Tensor, Tensor)",
      tags);
}
TORCH_LIBRARY_IMPL(my_ops, CPU, m) {
  my_ops::add_kernels(m);
  m.impl("my_range", my_ops::my_range);
}
TORCH_LIBRARY_IMPL(my_ops, PrivateUse1, m) { my_ops::add_kernels(m); }
