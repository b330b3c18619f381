// SPDX-License-Identifier: Apache-2.0
// Square roots by Newton's rule: a step of x towards sqrt(a), which each block does for its part.
#include <pto/pto-inst.hpp>

using namespace pto;

constexpr int kTile = 1024;
using Row = Tile<TileType::Vec, float, 1, kTile, BLayout::RowMajor, 1, -1>;
using One = Tile<TileType::Vec, float, 1, 8, BLayout::RowMajor, 1, 1>;

// x = (x + a / x) / 2; changes[block] is the largest |change| relative to x.
__global__ __aicore__ void Step(__gm__ float* x, __gm__ const float* a, __gm__ float* changes,
                                int64_t n) {
  const int64_t blocks = get_block_num(), block = get_block_idx();
  One most, here;
  TEXPANDS(most, 0.0f);
  for (int64_t i = n * block / blocks, end = n * (block + 1) / blocks; i < end; i += kTile) {
    const int64_t count = end - i < kTile ? end - i : kTile;
    Row before(count), value(count);
    TLOAD(before, GlobalTensor(x + i, count));
    TLOAD(value, GlobalTensor(a + i, count));
    TDIV(value, value, before);
    TADD(value, value, before);
    TMULS(value, value, 0.5f);
    TSTORE(GlobalTensor(x + i, count), value);
    TSUB(before, before, value);
    TDIV(before, before, value);
    TABS(before, before);
    TROWMAX(here, before);
    TMAX(most, most, here);
  }
  TSTORE(GlobalTensor(changes + block, 1), most);
}
PTO_KERNEL(step, Step)

__global__ __aicore__ void Largest(__gm__ float* most, __gm__ const float* changes, int64_t n) {
  Row row(n);
  One largest;
  TLOAD(row, GlobalTensor(changes, n));
  TROWMAX(largest, row);
  TSTORE(GlobalTensor(most, 1), largest);
}
PTO_KERNEL(largest, Largest)
