// SPDX-License-Identifier: Apache-2.0
// DLPack's element types and PyTorch's. ATen/DLConvertor.h declares these functions and, along with
// them, all of PyTorch's operators, which take half a minute and a gigabyte to compile.
// Source: ATen/DLConvertor.h of PyTorch 2.13. Thread safety: pure functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/dlpack.h>

namespace at {

TORCH_API ScalarType toScalarType(const DLDataType& dtype);
TORCH_API DLDataType getDLDataType(const Tensor& t);

}  // namespace at
