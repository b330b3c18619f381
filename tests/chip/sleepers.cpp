// SPDX-License-Identifier: Apache-2.0
// Programs of test_runtime_simulate.py: tasks that sleep, whose best schedules are known. Scalar 0
// chooses one, scalar 1 says how many, scalar 2 for how many milliseconds each.
#include <pto/runtime.h>

using pto::Orchestration;
using pto::View;

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  Orchestration o(rt, args);
  const View x = o.inout(0);
  const auto time = o.scalar(o.integer(2));
  const View buffer = o.tensor({1}, x.dtype());
  for (int64_t k = 0; k < o.integer(1); ++k) {
    const View own = x.slice(0, k, k + 1);
    if (o.integer(0) == 0) {  // all at once
      o.submit("sleeps", {o.inout(own), time});
    } else if (o.integer(0) == 1) {  // one after another
      o.submit("sleeps", {o.inout(x), time});
    } else {  // each through one buffer, which the next overwrites
      o.submit("sleeps", {o.out(buffer), time});  // the line that overwrites
      o.submit("sleeps", {o.inout(own), time, o.in(buffer)});
    }
  }
  return 0;
}
