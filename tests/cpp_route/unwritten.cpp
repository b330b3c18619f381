// SPDX-License-Identifier: Apache-2.0
// A kernel that adds a tile which nothing wrote. Compiled twice, once with PTO_CHECKED.
#include <pto/pto-inst.hpp>

using namespace pto;

static __global__ void unwritten(__gm__ float* out) {
  Tile<TileType::Vec, float, 1, 64> a, b, d;
  TLOAD(a, GlobalTensor(out, 64));
  if (get_block_idx() % 2 == 0) TEXPANDS(b, 1.0f);
  if (out[0] < 0) SYNCALL();
  TADD(d, a, b);
  TSTORE(GlobalTensor(out, 64), d);
}

int32_t CALL(float* out, int blocks) { return EXEC_KERNEL_CMD(unwritten, blocks, out); }

#ifdef PTO_CHECKED
#include <stdio.h>

#include <initializer_list>

int32_t call_plain(float* out, int blocks);

int main() {
  float x[64] = {1};
  for (const float sign : {1.0f, -1.0f}) {  // without a fiber, and on one
    x[0] = sign;
    printf("plain: %d\n", call_plain(x, 1));
    x[0] = sign;
    const int32_t code = CALL(x, 2);
    printf("%d: %s\n", code, pto_last_error());
  }
}
#endif
