// SPDX-License-Identifier: Apache-2.0
// An operator defined in C++, so that it runs in a process without Python.
#include "pto/operators/define.hpp"
#include "pto/operators/kernel_arguments.hpp"

namespace {

int32_t scaled_add(const pto_args* args) {
  const pto::KernelArguments in(args);
  const auto* x = in.data<const float>(0);
  const auto* y = in.data<const float>(1);
  auto* result = in.data<float>(2);
  const auto alpha = static_cast<float>(in.real(0));
  int64_t elements = 1;
  for (int d = 0; d < in.tensor(0).rank; ++d) elements *= in.tensor(0).sizes[d];
  const auto mine = in.items(elements);
  for (int64_t i = mine.first; i < mine.last; ++i) result[i] = x[i] + alpha * y[i];
  return 0;
}

void infer(pto::op::Infer& call) {
  const auto x = call.tensor("x"), y = call.tensor("y");
  if (x.rank() != y.rank()) {
    return call.fail("lite_scaled_add: x and y have different ranks", "elements go in pairs",
                     "give them one shape");
  }
  pto::op::Size elements = call.constant(1);
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    call.require_equal(x.sizes[d], y.sizes[d], "lite_scaled_add");
    elements = elements * x.sizes[d];
  }
  call.output(x);
  call.work(elements, elements * 12);
}

const pto::op::Defined kScaledAdd = pto::op::define({
    .schema = "lite_scaled_add(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor",
    .types = "(T, T) -> T where T: f32",
    .infer = infer,
    .kernels = {{"cpu", pto::op::kAny, scaled_add}},
});

}  // namespace
