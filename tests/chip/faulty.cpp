// SPDX-License-Identifier: Apache-2.0
// Programs of test_runtime_check.py, with one mistake each: scalar 0 chooses one, 0 has none.
#include <pto/runtime.h>

using pto::Orchestration;
using pto::View;

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  Orchestration o(rt, args);
  const View x = o.inout(0), y = o.inout(1);
  pto::TaskOptions manual, after;
  manual.manual = true;
  const auto one = o.scalar(1);
  switch (o.integer(0)) {
    case 1:  // a race: both write x
      o.submit("mix", {o.inout(x), o.in(y), one});
      o.submit("mix", {o.inout(x.slice(0, 1, 3)), o.in(y), one}, manual);  // the race
      return 0;
    case 2:  // a race: x is read while it is written
      o.submit("mix", {o.inout(x), o.in(x), one});
      o.submit("mix", {o.inout(y), o.no_dep(x), one});
      return 0;
    case 3:  // writes its input
      o.submit("mix", {o.in(x), o.in(y), one});
      return 0;
    case 4:  // the edge is not needed
      after.after = {o.submit("mix", {o.inout(x), o.in(x), one})};
      o.submit("mix", {o.inout(y), o.in(y), one}, after);
      return 0;
    case 5:
      o.submit("fails", {o.inout(x)});
      return 0;
    default:
      o.submit("mix", {o.inout(x), o.in(y), one});
      o.submit("mix", {o.inout(y), o.in(x), one});
      return 0;
  }
}
