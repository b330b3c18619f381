// SPDX-License-Identifier: Apache-2.0
// Sequences and triangles over valid regions; random numbers against published and slow Philox.
#include "pto/isa/elementwise/generate.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/isa_oracle.hpp"
#include "tests/slow_philox.hpp"

namespace pto::generate_test {
using namespace isa;

template <class T>
using Line = Tile<TileType::Vec, T, 1, 320, BLayout::RowMajor, 1, DYNAMIC>;
template <class T>
using Block = Tile<TileType::Vec, T, 6, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;

template <class T>
void check_sequence() {
  for (const int cols : {0, 1, 31, 64, 100, 320})
    for (const T start : {T(0), T(5), T(-3), highest<T>()}) {
      Line<T> up(cols), down(cols);
      fill(up, 1), fill(down, 2);
      const auto up_before = up, down_before = down;
      TCI<Line<T>, T, 0>(up, start);
      TCI<Line<T>, Line<T>, T, 1>(down, start, up);
      EXPECT_EQ(differs(up, up_before, 0, [&](int, int c) { return wide(start) + c; }), "");
      EXPECT_EQ(differs(down, down_before, 0, [&](int, int c) { return wide(start) - c; }), "");
    }
}

TEST(Generate, counts_up_and_down_and_wraps) {
  check_sequence<int16_t>();
  check_sequence<uint16_t>();
  check_sequence<int32_t>();
  check_sequence<uint32_t>();
}

template <class T>
void check_triangle() {
  for (const int diag : {-70, -6, -1, 0, 1, 5, 63, 70, 2147483647}) {
    auto low = shaped<Block<T>>(5, 61), high = low;
    fill(low, 1), fill(high, 2);
    const auto low_before = low, high_before = high;
    TTRI<Block<T>, 0>(low, diag);
    TTRI<Block<T>, 1>(high, diag);
    const auto at_most = [&](int r, int c) { return Wide<T>(int64_t(c) <= int64_t(r) + diag); };
    const auto at_least = [&](int r, int c) { return Wide<T>(int64_t(c) >= int64_t(r) + diag); };
    EXPECT_EQ(differs(low, low_before, 0, at_most), "") << diag;
    EXPECT_EQ(differs(high, high_before, 0, at_least), "") << diag;
  }
}

TEST(Generate, fills_triangles) {
  check_triangle<float>();
  check_triangle<half>();
  check_triangle<bfloat16_t>();
  check_triangle<int8_t>();
  check_triangle<uint8_t>();
  check_triangle<int16_t>();
  check_triangle<uint16_t>();
  check_triangle<int32_t>();
  check_triangle<uint32_t>();
}

// A run of 256 columns has 64 neighbouring counters; word w of the i-th is in column 64 w + i.
template <class T, uint16_t Rounds, int Cols>
void check_random(const TRandomKey& key, const TRandomCounter& counter, int rows, int cols) {
  Tile<TileType::Vec, T, 6, Cols, BLayout::RowMajor, -1, -1> d(rows, cols);
  fill(d, 1);
  const auto before = d;
  TRANDOM<Rounds>(d, key, counter);
  const int runs = (cols + 255) / 256, step = Cols < 256 ? 64 : Cols / 4;
  EXPECT_EQ(differs(d, before, 0,
                    [&](int r, int c) {
                      uint32_t block[4], words[4];
                      unsigned __int128 whole = 0;
                      for (int i = 3; i >= 0; --i) whole = whole << 32 | counter[i];
                      whole += unsigned(r * runs + c / 256) * unsigned(step) + unsigned(c % 64);
                      for (int i = 0; i < 4; ++i) block[i] = uint32_t(whole >> (32 * i));
                      philox_slowly(Rounds, key, block, words);
                      return wide(T(words[c % 256 / 64]));
                    }),
            "")
      << rows << " x " << cols << " of " << Cols;
}

TEST(Random, is_philox_of_lanes_of_counters) {
  const TRandomKey key = {0xa4093822u, 0x299f31d0u};
  const TRandomCounter plain = {7, 1, 2, 3};
  const TRandomCounter carries = {0xfffffffeu, 0xffffffffu, 0xffffffffu, 0xffffffffu};
  for (const int cols : {0, 1, 5, 63, 64}) {
    check_random<uint32_t, 10, 64>(key, plain, 6, cols);
    check_random<int32_t, 7, 64>(key, carries, 3, cols);
  }
  for (const int cols : {65, 255, 256, 257, 448, 511, 600, 640})
    check_random<uint32_t, 7, 640>(key, carries, 6, cols);
  check_random<uint32_t, 10, 256>(key, plain, 4, 256);
}

TEST(Random, repeats_no_counter_in_narrow_tiles) {
  const TRandomKey key = {1, 2};
  const TRandomCounter counter = {3, 4, 5, 6};
  Tile<TileType::Vec, uint32_t, 32, 32> d;
  TRANDOM(d, key, counter);
  std::set<uint32_t> all(d.data(), d.data() + d.Numel);
  EXPECT_EQ(int(all.size()), d.Numel);  // of 2^32: one value twice has a chance of 1 in 8192
}

TEST(Random, has_the_numbers_that_its_authors_publish) {
  const TRandomKey key = {0xa4093822u, 0x299f31d0u};
  const TRandomCounter counter = {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u};
  Tile<TileType::Vec, uint32_t, 1, 256> d;
  TRANDOM(d, key, counter);
  const uint32_t known[] = {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(d.GetValue(64 * i), known[i]) << i;
}

}  // namespace pto::generate_test
