// SPDX-License-Identifier: Apache-2.0
// For each x of a batch, `rounds` times: t = x w, x = t + b. A chain for each x, by way of memory
// that is made for a round and given back when its tasks are done; chains run side by side.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto batch = o.inout(0), w = o.input(1), b = o.input(2);
  for (int64_t round = 0; round < o.integer(0); ++round)
    for (int64_t k = 0; k < batch.shape()[0]; ++k) {
      auto scope = o.scope();
      auto x = batch[k], t = o.tensor(x.shape(), x.dtype());
      o.submit("matmul", {o.out(t), o.in(x), o.in(w)});
      o.submit("add", {o.out(x), o.in(t), o.in(b), o.scalar(x.numel())});
    }
  return 0;
}
