// SPDX-License-Identifier: Apache-2.0
// z = x + y by a kernel that another compiler made, then w = z * z by one of ours. Tensors stand in
// the order of their declaration.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.input(0), y = o.input(1), w = o.output(2), z = o.tensor(x.shape(), x.dtype());
  o.submit("add_custom", {o.in(x), o.in(y), o.out(z)});
  o.submit("multiply", {o.out(w), o.in(z), o.in(z), o.scalar(z.numel())});
  return 0;
}
