// SPDX-License-Identifier: Apache-2.0
// The greatest elements and their positions: sorted blocks of 32, merged four at a time, then split
// into values and indices.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <pto/pto-inst.hpp>

using namespace pto;

template <int Length, int Top>
AICORE void topk(__gm__ float* values, __gm__ uint32_t* indices, __gm__ float* in,
                 __gm__ uint32_t* positions) {
  using Row = Tile<TileType::Vec, float, 1, Length, BLayout::RowMajor, -1, -1>;
  using IndexRow = Tile<TileType::Vec, uint32_t, 1, Length, BLayout::RowMajor, -1, -1>;
  using Pairs = Tile<TileType::Vec, float, 1, 2 * Length, BLayout::RowMajor, -1, -1>;
  using PairBits = Tile<TileType::Vec, uint32_t, 1, 2 * Length, BLayout::RowMajor, -1, -1>;
  Row row(1, Length), best(1, Length);
  IndexRow index(1, Length), bestIndex(1, Length);
  Pairs pairs(1, 2 * Length), merged(1, 2 * Length);
  PairBits bits(1, 2 * Length);
  TASSIGN(row, 0x0);
  TASSIGN(index, 0x2000);
  TASSIGN(pairs, 0x4000);
  TASSIGN(merged, 0x8000);
  TASSIGN(bits, 0x8000);  // the same pairs
  TASSIGN(best, 0xc000);
  TASSIGN(bestIndex, 0xe000);

  GlobalTensor<float, Shape<1, 1, 1, 1, Length>, Stride<1, 1, 1, Length, 1>> inView(in);
  GlobalTensor<uint32_t, Shape<1, 1, 1, 1, Length>, Stride<1, 1, 1, Length, 1>> at(positions);
  TLOAD(row, inView);
  TLOAD(index, at);
  TSORT32(pairs, row, index);
  for (int block = 64; block < 2 * Length; block *= 4) {
    TMRGSORT<Pairs, Pairs>(merged, pairs, block);
    TMOV(pairs, merged);
  }
  TGATHER<Row, Pairs, MaskPattern::P0101>(best, merged);
  TGATHER<IndexRow, PairBits, MaskPattern::P1010>(bestIndex, bits);

  using TopShape = Shape<1, 1, 1, 1, Top>;
  GlobalTensor<float, TopShape, Stride<1, 1, 1, Top, 1>> valueView(values);
  GlobalTensor<uint32_t, TopShape, Stride<1, 1, 1, Top, 1>> indexView(indices);
  Tile<TileType::Vec, float, 1, Length, BLayout::RowMajor, 1, Top> top;
  Tile<TileType::Vec, uint32_t, 1, Length, BLayout::RowMajor, 1, Top> topIndex;
  TASSIGN(top, 0xc000);
  TASSIGN(topIndex, 0xe000);
  TSTORE(valueView, top);
  TSTORE(indexView, topIndex);
}

TEST(TopK, finds_the_greatest_and_where_they_were) {
  constexpr int kLength = 512, kTop = 16;
  std::vector<float> in(kLength), values(kTop);
  std::vector<uint32_t> positions(kLength), indices(kTop), wanted(kLength);
  for (int i = 0; i < kLength; ++i) in[i] = float(i * 331 % 1021) - 500;
  std::iota(positions.begin(), positions.end(), 0u);
  topk<kLength, kTop>(values.data(), indices.data(), in.data(), positions.data());
  std::iota(wanted.begin(), wanted.end(), 0u);
  std::sort(wanted.begin(), wanted.end(), [&](auto x, auto y) { return in[x] > in[y]; });
  for (int i = 0; i < kTop; ++i) {
    EXPECT_EQ(indices[i], wanted[i]);
    EXPECT_EQ(values[i], in[wanted[i]]);
  }
}
