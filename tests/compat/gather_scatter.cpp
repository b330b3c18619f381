// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index, elements of a tile by index, and both ways back.
#include <gtest/gtest.h>

#include <vector>

#include <pto/pto-inst.hpp>

using namespace pto;

namespace {

constexpr int kTableRows = 24, kRows = 8, kCols = 16;
using TableView = GlobalTensor<float, Shape<1, 1, 1, kTableRows, kCols>,
                               Stride<1, 1, kTableRows * kCols, kCols, 1>>;
using Rows = Tile<TileType::Vec, float, kRows, kCols, BLayout::RowMajor, kRows, kCols>;
using RowIndex = Tile<TileType::Vec, int32_t, 1, kRows, BLayout::RowMajor, 1, kRows>;
using Places = Tile<TileType::Vec, int32_t, kRows, kCols, BLayout::RowMajor, kRows, kCols>;

AICORE void moveRows(__gm__ float* to, __gm__ float* from, __gm__ int32_t* indices) {
  TableView fromView(from), toView(to);
  GlobalTensor<int32_t, Shape<1, 1, 1, 1, kRows>, Stride<1, 1, 1, kRows, 1>> indexView(indices);
  Rows rows;
  RowIndex index;
  TASSIGN(rows, 0x0);
  TASSIGN(index, 0x1000);
  TLOAD(index, indexView);
  MGATHER<Coalesce::Row>(rows, fromView, index);
  MSCATTER<Coalesce::Row>(toView, rows, index);
}

}  // namespace

TEST(GatherScatter, moves_the_rows_that_are_named) {
  std::vector<float> from(kTableRows * kCols), to(kTableRows * kCols, -1);
  for (size_t i = 0; i < from.size(); ++i) from[i] = float(i);
  std::vector<int32_t> index = {3, 17, 0, 23, 8, 9, 21, 2};
  moveRows(to.data(), from.data(), index.data());
  std::vector<float> wanted(kTableRows * kCols, -1);
  for (int row : index)
    for (int c = 0; c < kCols; ++c) wanted[row * kCols + c] = from[row * kCols + c];
  EXPECT_EQ(to, wanted);
}

TEST(GatherScatter, exchanges_elements_of_a_tile_and_back) {
  Rows source, shuffled, back;
  Places places, tmp;
  TASSIGN(source, 0x0);
  TASSIGN(shuffled, 0x1000);
  TASSIGN(back, 0x2000);
  TASSIGN(places, 0x3000);
  TASSIGN(tmp, 0x4000);
  for (int i = 0; i < kRows * kCols; ++i) {
    source.SetValue(i, float(i));
    places.SetValue(i, i * 37 % (kRows * kCols));
  }
  TGATHER(shuffled, source, places, tmp);
  TSCATTER(back, shuffled, places);
  for (int i = 0; i < kRows * kCols; ++i) {
    EXPECT_EQ(shuffled.GetValue(i), float(i * 37 % (kRows * kCols)));
    EXPECT_EQ(back.GetValue(i), float(i));
  }
}
