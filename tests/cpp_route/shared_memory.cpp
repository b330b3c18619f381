// SPDX-License-Identifier: Apache-2.0
// Tiles of two types in one memory: what is written through one is read through the other.
#include <cstdio>

#include "pto/pto-inst.hpp"

using namespace pto;

using Floats = Tile<TileType::Vec, float, 1, 64>;
using Words = Tile<TileType::Vec, int32_t, 1, 64>;
using Matrix = Tile<TileType::Vec, float, 8, 64>;
using Table = Tile<TileType::Vec, int32_t, 8, 64>;
using Column = Tile<TileType::Vec, float, 8, 8, BLayout::RowMajor, 8, 1>;
using Places = Tile<TileType::Vec, int32_t, 8, 8, BLayout::RowMajor, 8, 1>;

__attribute__((noinline)) int32_t bits_of_sum(Floats& floats, Words& words) {
  words.SetValue(0, 7);
  Floats quarters;
  TEXPANDS(quarters, 0.25f);
  TROWSUM(floats, quarters, quarters);
  return words.GetValue(0);
}

__attribute__((noinline)) int32_t bits_of_maxima(const Matrix& ones, const Table& fives) {
  Column maxima;
  Places before;
  Table all, none;
  Matrix scratch;
  TASSIGN(maxima, 0);
  TASSIGN(before, 0);
  TROWMAX(before, fives, none);
  TROWMAX(maxima, ones, scratch);
  TROWEXPAND(all, before);
  return all.GetValue(511);
}

int main() {
  Floats floats, own;
  Words words, same;
  TRESHAPE(words, floats);
  TASSIGN(own, 4096);
  TASSIGN(same, 4096);
  Matrix ones;
  Table fives;
  TEXPANDS(ones, 1.0f);
  TEXPANDS(fives, 5);
  std::printf("%x %x %x\n", unsigned(bits_of_sum(floats, words)), unsigned(bits_of_sum(own, same)),
              unsigned(bits_of_maxima(ones, fives)));
}
