// SPDX-License-Identifier: Apache-2.0
// z = x + y, then w = z + y: the second task waits for the first, since it reads what that writes.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.input(0), y = o.input(1), w = o.output(2), z = o.tensor(x.shape(), x.dtype());
  o.submit("add", {o.out(z), o.in(x), o.in(y), o.scalar(x.numel())});
  o.submit("add", {o.out(w), o.in(z), o.in(y), o.scalar(x.numel())});
  return 0;
}
