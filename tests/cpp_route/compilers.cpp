// SPDX-License-Identifier: Apache-2.0
// Constants and choices that g++ 12 misread: a view of no rows, whose shape is known when it is
// compiled, and pairs that are put together and taken apart under the sanitizer of undefined
// behaviour. Prints nothing where all is right.
#include <pto/pto-inst.hpp>

#include <cstdio>

using namespace pto;

using Row = Tile<TileType::Vec, int32_t, 1, 8, BLayout::RowMajor, 1, DYNAMIC>;
using View = GlobalTensor<int32_t, Shape<>, Stride<>, Layout::DN>;
using Bytes = Tile<TileType::Vec, uint8_t, 2, 32>;

__attribute__((noinline)) void store_no_rows(int32_t* memory) {
  Row row(5);
  TEXPANDS(row, 3);
  TSTORE(View(memory, Shape<>(1, 1, 1, 0, 5), Stride<>(1, 1, 1, 8, 2)), row);
  View view(memory, Shape<>(1, 1, 1, 1, 5), Stride<>(1, 1, 1, 8, 2));
  view.SetShape<3>(0);
  TSTORE(view, row);
}

__attribute__((noinline)) void check_pairs() {
  Bytes even, odd, low, high, even_again, odd_again;
  for (int i = 0; i < Bytes::Numel; ++i)
    even.SetValue(i, uint8_t(2 * i)), odd.SetValue(i, uint8_t(2 * i + 1));
  TINTERLEAVE(high, low, odd, even);
  TDEINTERLEAVE(odd_again, even_again, high, low);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 32; ++c) {
      const int first = 64 * r + c;
      if (low.GetElement(r, c) != first || high.GetElement(r, c) != first + 32)
        std::printf("row %d, column %d of the pairs is wrong\n", r, c);
      if (even_again.GetElement(r, c) != 64 * r + 2 * c ||
          odd_again.GetElement(r, c) != 64 * r + 2 * c + 1)
        std::printf("row %d, column %d of what was taken apart is wrong\n", r, c);
    }
}

int main() {
  int32_t memory[64] = {};
  store_no_rows(memory);
  for (int i = 0; i < 64; ++i)
    if (memory[i] != 0) std::printf("element %d was stored through a view of no rows\n", i);
  check_pairs();
}
