// SPDX-License-Identifier: Apache-2.0
// z[k] = x[k] y[k]: tasks that share no memory, so that all of them may run at once.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto x = o.input(0), y = o.input(1), z = o.output(2);
  for (int64_t k = 0; k < x.shape()[0]; ++k)
    o.submit("matmul", {o.out(z[k]), o.in(x[k]), o.in(y[k])});
  return 0;
}
