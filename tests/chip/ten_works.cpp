// SPDX-License-Identifier: Apache-2.0
// Ten tasks in a chain, by the name and by the func_id of the kernel.
#include <pto/runtime.h>
extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  for (int i = 0; i < 10; ++i)
    o.submit(i % 2 ? "work" : "0", {o.inout(o.inout(0)), o.scalar(o.integer(0))});
  return 0;
}
