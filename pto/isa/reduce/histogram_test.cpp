// SPDX-License-Identifier: Apache-2.0
// Histograms against counting one element and one bin at a time.
#include "pto/isa/reduce/histogram.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::histogram_test {
using namespace isa;

// Takes few values in the higher bytes, so that the filters let some through.
template <class T>
T element(int i) {
  const unsigned h = unsigned(i) * 2654435761u;
  return T(((h >> 3) & 0x010101ffu) | ((h >> 5) & 0x03000300u) | (h & 0x7fu) << 8);
}

template <class T, HistByte Byte>
void check() {
  constexpr int kByte = int(Byte), kBytes = int(sizeof(T));
  using Source = Tile<TileType::Vec, T, 4, 512, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Known = Tile<TileType::Vec, uint8_t, 32, 1, BLayout::ColMajor>;
  using Bins = Tile<TileType::Vec, uint32_t, 4, 256>;
  for (const int cols : {0, 1, 7, 100, 511, 512}) {
    auto s = shaped<Source>(3, cols);
    for (int i = 0; i < s.Numel; ++i) s.SetValue(i, element<T>(i));
    Known known;
    for (int i = 0; i < 32; ++i)
      known.SetValue(i, uint8_t(kBytes == 2 ? element<T>(i * 512) >> 8
                                            : element<T>(3) >> (8 * std::max(0, 3 - i))));
    Bins d;
    for (int i = 0; i < d.Numel; ++i) d.SetValue(i, 77);
    THISTOGRAM<Byte>(d, s, known);
    for (int r = 0; r < 4; ++r)
      for (int b = 0; b < 256; ++b) {
        uint32_t want = r < 3 ? 0 : 77;
        for (int c = 0; c < cols && r < 3; ++c) {
          const T value = s.GetElement(r, c);
          bool counts = int((value >> (8 * kByte)) & 255) <= b;
          for (int higher = kByte + 1; higher < kBytes; ++higher)
            counts &= int((value >> (8 * higher)) & 255) ==
                      known.GetValue(kBytes == 2 ? r : kBytes - 1 - higher);
          want += counts;
        }
        ASSERT_EQ(d.GetElement(r, b), want) << "bin " << b << " of row " << r << ", byte " << kByte;
      }
  }
}

TEST(Histogram, sums_up_a_byte_where_the_higher_ones_are_known) {
  check<uint16_t, HistByte::BYTE_0>();
  check<uint16_t, HistByte::BYTE_1>();
  check<uint32_t, HistByte::BYTE_0>();
  check<uint32_t, HistByte::BYTE_1>();
  check<uint32_t, HistByte::BYTE_2>();
  check<uint32_t, HistByte::BYTE_3>();
}

}  // namespace pto::histogram_test
