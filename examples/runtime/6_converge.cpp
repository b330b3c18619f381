// SPDX-License-Identifier: Apache-2.0
// Runs as many steps as the data need: all are submitted at once, and a step is skipped if the one
// before changed nothing any more. Each step runs as several blocks.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* args) {
  pto::Orchestration o(rt, args);
  const int64_t blocks = 4;
  auto x = o.inout(0), a = o.input(1);
  auto most = o.tensor({1}, x.dtype()), changes = o.tensor({blocks}, x.dtype());
  pto::TaskOptions options, in_blocks;
  in_blocks.blocks = int32_t(blocks);
  for (int64_t step = 0; step < o.integer(0); ++step) {
    o.submit("step", {o.inout(x), o.in(a), o.out(changes), o.scalar(x.numel())}, in_blocks);
    o.submit("largest", {o.out(most), o.in(changes), o.scalar(blocks)}, options);
    options.condition = in_blocks.condition = &most;  // from now on: where *most > number(1)
    options.compare = in_blocks.compare = PTO_IF_GT;
    options.value = in_blocks.value = o.number(1);
  }
  return 0;
}
