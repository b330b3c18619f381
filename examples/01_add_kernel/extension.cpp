// SPDX-License-Identifier: Apache-2.0
// The same kernel as an operator of PyTorch: torch.ops.pto_example.add(x, y).
//
//     python setup.py build_ext --inplace
//     >>> import torch, add_kernel; torch.ops.pto_example.add(torch.ones(5), torch.ones(5))
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <Python.h>
#include <torch/library.h>

#include "my_add_kernel.hpp"

namespace {

at::Tensor add(const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.sizes() == y.sizes(), "add: x has sizes ", x.sizes(), ", but y has ", y.sizes());
  at::Tensor out = at::empty_like(x);
  int64_t length = x.numel();
  EXEC_KERNEL_CMD(MyAddKernel, 24, out, x, y, length);
  return out;
}

}  // namespace

TORCH_LIBRARY(pto_example, library) { library.def("add(Tensor x, Tensor y) -> Tensor"); }
TORCH_LIBRARY_IMPL(pto_example, CPU, library) { library.impl("add", add); }

// Lets `import add_kernel` load the library.
PyMODINIT_FUNC PyInit_add_kernel() {
  static PyModuleDef module = {PyModuleDef_HEAD_INIT,
                               "add_kernel",
                               nullptr,
                               -1,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  return PyModule_Create(&module);
}
