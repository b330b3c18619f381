// SPDX-License-Identifier: Apache-2.0
// The scan of bench/language.py by hand: its tasks. Those within chunks wait for none; those that
// carry the state form a chain a head.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto out = o.output(0), states = o.output(1), q = o.input(2), k = o.input(3), v = o.input(4);
  auto within = o.input(5), before = o.input(6), after = o.input(7), whole = o.input(8);
  for (int64_t h = 0; h < q.shape()[0]; ++h)
    for (int64_t c = 0; c < q.shape()[1]; ++c) {
      o.submit("within_chunk",
               {o.out(out[h][c]), o.in(q[h][c]), o.in(k[h][c]), o.in(v[h][c]), o.in(within[h])});
      o.submit("carry", {o.inout(out[h][c]), o.inout(states[h]), o.in(q[h][c]), o.in(k[h][c]),
                         o.in(v[h][c]), o.in(before[h]), o.in(after[h]), o.in(whole[h])});
    }
  return 0;
}
