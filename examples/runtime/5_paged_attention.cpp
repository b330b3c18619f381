// SPDX-License-Identifier: Apache-2.0
// Attention over keys and values that lie in pages, wherever the block table says. A sequence is a
// chain of tasks, one a page; sequences run side by side.
#include <pto/runtime.h>

extern "C" int32_t pto_orchestrate(const pto_runtime_api* rt, const pto_args* a) {
  pto::Orchestration o(rt, a);
  auto out = o.output(0), queries = o.input(1), keys = o.input(2), values = o.input(3);
  auto table = o.input(4), lengths = o.input(5);
  const int64_t page = keys.shape()[1];
  for (int64_t s = 0; s < queries.shape()[0]; ++s) {
    auto scope = o.scope();
    auto sum = o.tensor({queries.shape()[1]}, pto::element::f32);
    auto stats = o.tensor({2}, pto::element::f32);
    const int64_t length = o.read<int32_t>(lengths[s]);
    for (int64_t begin = 0; begin < length; begin += page) {
      const int32_t block = o.read<int32_t>(table[s][begin / page]);
      const int64_t count = length - begin < page ? length - begin : page;
      o.submit("attend_page",
               {o.inout(sum), o.inout(stats), o.in(queries[s]), o.in(keys[block]),
                o.in(values[block]), o.scalar(count), o.scalar(int64_t(begin == 0))});
    }
    o.submit("finish", {o.out(out[s]), o.in(sum), o.in(stats)});
  }
  return 0;
}
