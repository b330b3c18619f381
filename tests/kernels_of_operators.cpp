// SPDX-License-Identifier: Apache-2.0
// Hand-written kernels of the operators in test_operator_kinds.py.
#include "pto/operators/kernel_arguments.hpp"

using pto::KernelArguments;
using Element = PTO_TYPE_0;

// The parts of x [n, m] along axis 0; scalar 0: the list of sizes.
extern "C" int32_t split_rows(const pto_args* args) {
  const KernelArguments in(args);
  const auto* from = in.data<const Element>(0);
  const int64_t width = in.tensor(0).sizes[1];
  for (int part = 0; part < in.integers(0).size; ++part) {
    auto* to = in.data<Element>(1 + part);
    for (int64_t i = 0; i < in.integers(0)[part] * width; ++i) to[i] = *from++;
  }
  return 0;
}

// Rows of x [n, m] that indices [k] name.
extern "C" int32_t take_rows(const pto_args* args) {
  const KernelArguments in(args);
  const auto* x = in.data<const Element>(0);
  const auto* indices = in.data<const PTO_TYPE_1>(1);
  auto* to = in.data<Element>(2);
  const int64_t rows = in.tensor(0).sizes[0], width = in.tensor(0).sizes[1];
  for (int64_t k = 0; k < in.tensor(1).sizes[0]; ++k) {
    if (indices[k] < 0 || indices[k] >= rows) return in.fail("an index is out of range");
    for (int64_t i = 0; i < width; ++i) *to++ = x[indices[k] * width + i];
  }
  return 0;
}
