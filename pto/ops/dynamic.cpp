// SPDX-License-Identifier: Apache-2.0
// Kernels of dynamic.py. Tensors are dense; PTO_TYPE_0 is the element type. Each runs as one block:
// where a row goes depends on all elements before it.
#include <algorithm>

#include "pto/operators/kernel_arguments.hpp"
#include "pto/pto-inst.hpp"

namespace {

using pto::bfloat16_t;
using pto::half;
using Element = PTO_TYPE_0;

}  // namespace

// x, places; how many.
extern "C" int32_t nonzero(const pto_args* args) {
  const pto::KernelArguments in(args);
  const pto_tensor& x = in.tensor(0);
  const auto* element = in.data<const Element>(0);
  auto* to = in.data<int64_t>(1);
  int64_t count = 1, found = 0;
  for (int32_t axis = 0; axis < x.rank; ++axis) count *= x.sizes[axis];
  int64_t place[PTO_MAX_RANK] = {};
  for (int64_t i = 0; i < count; ++i) {
    if (element[i] != Element(0)) {
      to = std::copy_n(place, x.rank, to);
      ++found;
    }
    for (int32_t axis = x.rank; axis-- > 0 && ++place[axis] == x.sizes[axis];) place[axis] = 0;
  }
  *in.data<int64_t>(2) = found;
  return 0;
}
