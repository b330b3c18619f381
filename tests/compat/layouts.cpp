// SPDX-License-Identifier: Apache-2.0
// Tests where the elements of memory go in tiles: views whose outer dimensions are rows or columns,
// as the tile's order says, and boxed tiles with a given place.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include <pto/common/pto_tile.hpp>
#include <pto/pto-inst.hpp>

using namespace pto;

namespace {

std::vector<float> countUp(int count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  return numbers;
}

template <int Rows, int Cols>
using ColumnMajor = Tile<TileType::Vec, float, Rows, Cols, BLayout::ColMajor, DYNAMIC, DYNAMIC>;

}  // namespace

TEST(Layouts, outer_dimensions_of_a_dn_view_may_be_rows) {
  constexpr int kOuter = 4, kInner = 8;
  using View =
      GlobalTensor<float, Shape<1, 1, kOuter, kInner, 1>,
                   Stride<kOuter * kInner, kOuter * kInner, kInner, 1, kInner>, Layout::DN>;
  std::vector<float> numbers = countUp(kOuter * kInner), out(kOuter * kInner, 0.0f);
  ColumnMajor<32, 1> column(32, 1);
  View from(numbers.data()), to(out.data());
  TLOAD(column, from);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(column.data()[i], numbers[i]) << i;
  TSTORE(to, column);
  EXPECT_EQ(out, numbers);
}

TEST(Layouts, outer_dimensions_of_a_dn_view_may_be_rows_of_a_row_major_tile) {
  using View = GlobalTensor<float, Shape<1, 2, 2, 3, -1>, Stride<192, 96, 48, 16, 1>, Layout::DN>;
  std::vector<float> numbers = countUp(192), out(192, -1.0f);
  Tile<TileType::Vec, float, 12, 16, BLayout::RowMajor, DYNAMIC, DYNAMIC> tile(12, 15);
  View from(numbers.data(), Shape<1, 2, 2, 3, -1>(15)), to(out.data(), Shape<1, 2, 2, 3, -1>(15));
  TLOAD(tile, from);
  TSTORE(to, tile);
  for (int i = 0; i < 192; ++i) EXPECT_EQ(out[i], i % 16 < 15 ? numbers[i] : -1.f) << i;
}

TEST(Layouts, outer_dimensions_of_an_nd_view_may_be_columns) {
  using View = GlobalTensor<float, Shape<1, 1, 3, 16, 2>, Stride<96, 96, 32, 2, 1>>;
  std::vector<float> numbers = countUp(96);
  ColumnMajor<16, 8> tile(16, 6);
  View view(numbers.data());
  TLOAD(tile, view);
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 6; ++c)
      EXPECT_EQ(tile.data()[c * 16 + r], numbers[c / 2 * 32 + r * 2 + c % 2]) << r << "," << c;
}

TEST(Layouts, a_boxed_tile_lies_where_its_data_is_set_to) {
  using Boxed = Tile<TileType::Right, float, 16, 32, BLayout::RowMajor, 16, 32, SLayout::ColMajor>;
  Tile<TileType::Vec, float, 1, 512> flat;
  Boxed boxed, copy;
  TASSIGN(flat, 0x0);
  boxed.data() = flat.data();
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 32; ++c) boxed.SetElement(r, c, static_cast<float>(r * 32 + c));
  copy = boxed;
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 32; ++c)
      EXPECT_EQ(flat.data()[GetTileElementOffset<Boxed>(r, c)], static_cast<float>(r * 32 + c));
  EXPECT_EQ(copy.data(), flat.data());
}

// Channels of a group run fastest, then the filter's columns and rows.
TEST(Layouts, columns_of_an_unfolded_image_are_filter_elements_of_eight_channels) {
  using Image = ConvTile<TileType::Mat, float, 96, Layout::NC1HWC0, ConvTileShape<1, 1, 3, 4, 8>>;
  Image image;
  TASSIGN(image, 0x0);
  for (int i = 0; i < 96; ++i) image.data()[i] = float(i);
  uint8_t pads[] = {0, 1, 0, 0};
  image.SetPadListArray(pads);
  image.SetFmapH(3), image.SetFmapW(4), image.SetFilterH(2), image.SetFilterW(2);
  image.SetStrideH(1), image.SetStrideW(1), image.SetDilationH(1), image.SetDilationW(1);
  image.SetChannelSize(8);
  image.SetPadValue(-1.f);
  TileLeft<float, 16, 32, 8, 32> d;
  TIMG2COL(d, image);
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 32; ++k) {
      const int h = row / 4 + k / 16, w = row % 4 + k / 8 % 2;
      EXPECT_EQ(d.GetElement(row, k), w < 4 ? float((h * 4 + w) * 8 + k % 8) : -1.f) << row << k;
    }
}
