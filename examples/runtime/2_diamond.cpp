// SPDX-License-Identifier: Apache-2.0
// f = (a + b + 1) (a + b + 2) + (a + b) in five tasks. The two in the middle run side by side:
// nothing says so but the memory that they touch.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  pto::Orchestration o(rt, args);
  auto a = o.input(0), b = o.input(1), f = o.output(2);
  auto n = o.scalar(a.numel());
  auto sum = o.tensor(a.shape(), a.dtype()), left = o.tensor(a.shape(), a.dtype()),
       right = o.tensor(a.shape(), a.dtype()), product = o.tensor(a.shape(), a.dtype());
  o.submit("add", {o.out(sum), o.in(a), o.in(b), n});
  o.submit("add_constant", {o.out(left), o.in(sum), o.scalar(1.0f), n});
  o.submit("add_constant", {o.out(right), o.in(sum), o.scalar(2.0f), n});
  o.submit("multiply", {o.out(product), o.in(left), o.in(right), n});
  o.submit("add", {o.out(f), o.in(product), o.in(sum), n});
  return 0;
}
