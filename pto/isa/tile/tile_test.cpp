// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "pto/isa/instructions.hpp"
#include "pto/isa/tile/tile_layouts.hpp"

namespace pto::tile_test {
using namespace isa;

template <class T, int R, int C, BLayout B, SLayout S, int F = 512>
using Boxed = Tile<TileType::Mat, T, R, C, B, R, C, S, F>;

// The public formula, written with divisions: boxes in the order of B, elements in the order of S.
template <class D>
int slow_offset(int row, int col) {
  const int box_row = row / D::InnerRows, box_col = col / D::InnerCols;
  const int r = row % D::InnerRows, c = col % D::InnerCols;
  const int box = D::BFractal == BLayout::RowMajor ? box_row * (D::Cols / D::InnerCols) + box_col
                                                   : box_col * (D::Rows / D::InnerRows) + box_row;
  const int inner = D::SFractal == SLayout::RowMajor ? r * D::InnerCols + c : c * D::InnerRows + r;
  return box * D::InnerRows * D::InnerCols + inner;
}

template <class D>
void expect_every_element_has_its_own_place() {
  std::vector<int> used(D::Numel);
  for (int r = 0; r < D::Rows; ++r)
    for (int c = 0; c < D::Cols; ++c) {
      const int at = D::Offset(r, c);
      ASSERT_EQ(at, slow_offset<D>(r, c)) << r << ", " << c;
      ++used[at];
    }
  for (int count : used) ASSERT_EQ(count, 1);
}

TEST(Layout, BoxesOrderElementsAsTheirNamesSay) {
  constexpr auto kRow = BLayout::RowMajor, kCol = BLayout::ColMajor;
  expect_every_element_has_its_own_place<Boxed<float, 32, 24, kCol, SLayout::RowMajor>>();
  expect_every_element_has_its_own_place<Boxed<half, 48, 32, kRow, SLayout::RowMajor>>();
  expect_every_element_has_its_own_place<Boxed<int8_t, 64, 32, kRow, SLayout::ColMajor>>();
  expect_every_element_has_its_own_place<Boxed<float, 16, 32, kCol, SLayout::ColMajor>>();
  expect_every_element_has_its_own_place<Boxed<float, 32, 48, kCol, SLayout::RowMajor, 1024>>();
  expect_every_element_has_its_own_place<Boxed<uint8_t, 32, 4, kRow, SLayout::RowMajor, 32>>();
  expect_every_element_has_its_own_place<Boxed<uint8_t, 4, 32, kCol, SLayout::ColMajor, 32>>();
}

TEST(Layout, BoxesOfOneTypeAreThePublicOnes) {
  using Left = TileLeft<half, 32, 64>;
  EXPECT_EQ(Left::InnerRows, 16);
  EXPECT_EQ(Left::InnerCols, 16);
  EXPECT_EQ(Left::Offset(17, 18), 32 * 16 + 17 * 16 + 2);  // second column of boxes, row 17
  using Right = TileRight<float, 16, 32>;
  EXPECT_EQ(Right::InnerRows, 8);
  EXPECT_EQ(Right::InnerCols, 16);
  EXPECT_EQ(Right::Offset(9, 3), 2 * 128 + 3 * 8 + 1);  // second row of boxes
  using Acc = TileAcc<float, 32, 32>;
  EXPECT_EQ(Acc::Offset(1, 17), 512 + 16 + 1);
  using Scale = TileLeftScale<uint8_t, 32, 4>;
  EXPECT_EQ(Scale::Offset(1, 2), 32 + 2);
}

TEST(Layout, OneRowInBoxesStillHasStorageForWholeBoxes) {
  using Row = TileLeft<float, 1, 64>;
  EXPECT_EQ(Row::Numel, 64);
  EXPECT_EQ(Row::kStored, 16 * 64);
  Row row;
  for (int c = 0; c < 64; ++c) row.SetElement(0, c, float(c));
  for (int c = 0; c < 64; ++c) EXPECT_EQ(row.GetElement(0, c), float(c));
}

TEST(Layout, ElementwiseWorksOnBoxedTilesOfOneLayoutAndOfTwo) {
  using Nz = Tile<TileType::Vec, float, 32, 16, BLayout::ColMajor, 20, 13, SLayout::RowMajor>;
  using Nd = Tile<TileType::Vec, float, 32, 16, BLayout::RowMajor, 20, 13>;
  Nz a, d;
  Nd b;
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 16; ++c) {
      a.SetElement(r, c, float(r * 16 + c));
      b.SetElement(r, c, 0.5f);
      d.SetElement(r, c, -1);
    }
  TADD(d, a, b);
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 16; ++c)
      EXPECT_EQ(d.GetElement(r, c), r < 20 && c < 13 ? float(r * 16 + c) + 0.5f : -1);
  TMULS(d, d, 2.0f);
  EXPECT_EQ(d.GetElement(19, 12), 2 * (19 * 16 + 12 + 0.5f));
  EXPECT_EQ(d.GetElement(20, 12), -1);
}

TEST(Layout, AnElementCanBeAddedTo) {
  TileAcc<float, 16, 16> acc;
  acc.SetElement(3, 4, 1.5f);
  acc.AddToElement(3, 4, 2.0f);
  EXPECT_EQ(acc.GetElement(3, 4), 3.5f);
  using Pair = float4_e2m1x2_t;
  Tile<TileType::Vec, Pair, 2, 64> pairs;
  pairs.SetElement(1, 2, Pair(0.5f)), pairs.SetElement(1, 3, Pair(1.0f));
  pairs.AddToElement(1, 3, Pair(2.0f));
  EXPECT_EQ(float(pairs.GetElement(1, 2)), 0.5f);
  EXPECT_EQ(float(pairs.GetElement(1, 3)), 3.0f);
}

}  // namespace pto::tile_test
