// SPDX-License-Identifier: Apache-2.0
// z = x + y, then z = z + y: a package with an orchestration of its own.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.input(0), y = o.input(1), z = o.output(2);
  o.submit("add", {o.out(z), o.in(x), o.in(y), o.scalar(x.numel())});
  o.submit("add", {o.inout(z), o.in(z), o.in(y), o.scalar(x.numel())});
  return 0;
}
