// SPDX-License-Identifier: Apache-2.0
// Tiles of several layouts, to be printed by gdb at stop().
#include <pto/pto-inst.hpp>
using namespace pto::isa;
void stop() { asm volatile(""); }
int main() {
  Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, 16, DYNAMIC> tile(60);
  Tile<TileType::Mat, half, 16, 32, BLayout::ColMajor, 3, 20, SLayout::RowMajor> boxed;
  Tile<TileType::Vec, int8_t, 1, 32> bytes;
  Tile<TileType::Vec, float, 128, 64> large;
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 64; ++c) tile.SetElement(r, c, r * 64 + c);
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 32; ++c) boxed.SetElement(r, c, half(r * 32 + c + 0.5f));
  for (int c = 0; c < 32; ++c) bytes.SetElement(0, c, c - 3);
  for (int i = 0; i < large.Numel; ++i) large.SetValue(i, -i);
  stop();
  return 0;
}
