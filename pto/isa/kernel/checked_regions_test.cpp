// SPDX-License-Identifier: Apache-2.0
// Kernels that check themselves: the valid regions of their tiles, positions and windows.
#define PTO_CHECKED
#define PTO_PORTABLE
#undef PTO_ENTER  // of a build that notes what runs
#include "pto/isa/kernel/checked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "pto/pto-inst.hpp"
#include "tests/isa_error.hpp"

namespace {

using namespace pto;  // NOLINT: as kernels are written

using Row = Tile<TileType::Vec, float, 1, 64>;
using Square = Tile<TileType::Vec, float, 16, 16>;
using AnyRow = Tile<TileType::Vec, float, 1, 64, BLayout::RowMajor, 1, DYNAMIC>;

TEST(CheckedRegions, a_source_is_valid_where_the_destination_is) {
  AnyRow a(10), b(20), d(20);
  TEXPANDS(a, 1.0f);
  TEXPANDS(b, 1.0f);
  EXPECT_ERROR(TADD(d, b, a),
               "TADD (d, a, b): source 2 has 10 valid columns of the 20 over which it runs",
               "an instruction runs over the valid region of its destination, TCMP to packed bits "
               "over that of its first source",
               "shrink that region, or widen the valid one of the source");
  Tile<TileType::Vec, float, 4, 16, BLayout::RowMajor, DYNAMIC, 16> rows(2), more(3);
  Tile<TileType::Vec, half, 4, 16, BLayout::RowMajor, DYNAMIC, 16> halves(3);
  TEXPANDS(rows, 1.0f);
  TEXPANDS(more, 1.0f);
  EXPECT_THAT(error_of([&] { TMULS(more, rows, 2.0f); }),
              testing::HasSubstr("source 1 has 2 valid rows of the 3 over"));
  EXPECT_THAT(error_of([&] { TCVT(halves, rows, RoundMode::CAST_RINT); }),
              testing::HasSubstr("TCVT (d, s, [tmp], mode, [sat]): source 1 has 2 valid rows"));
  EXPECT_THAT(error_of([&] { TADDSC(more, more, 2.0f, rows); }),
              testing::HasSubstr("TADDSC (d, a, scalar, b): source 2 has 2 valid rows"));
  more.SetValidRow(0);
  TADD(more, rows, rows);  // computes nothing
  TADD(a, b, b);           // and here as much as is valid
}

TEST(CheckedRegions, what_is_compared_and_chosen_is_valid_where_the_instruction_runs) {
  AnyRow a(10), b(20), d(20);
  Tile<TileType::Vec, mask32, 1, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC> few(1, 10), mask(1, 20);
  Tile<TileType::Vec, uint8_t, 1, 32> bits;
  Tile<TileType::Vec, uint8_t, 1, 32> tmp;
  TEXPANDS(a, 1.0f);
  TEXPANDS(b, 1.0f);
  const auto lacks = [](const char* form, int source) {
    return testing::HasSubstr(std::string(form) + ": source " + std::to_string(source) +
                              " has 10 valid columns of the 20 over which it runs");
  };
  EXPECT_THAT(error_of([&] { TCMP(mask, b, a, CmpMode::LT); }), lacks("TCMP (d, a, b, mode)", 2));
  EXPECT_THAT(error_of([&] { TCMP<CmpMode::LT>(bits, b, a); }), lacks("TCMP (d, a, b, mode)", 2));
  EXPECT_THAT(error_of([&] { TCMPS(mask, a, 0.5f, CmpMode::GT); }),
              lacks("TCMPS (d, a, scalar, mode)", 1));
  TCMP(few, a, b, CmpMode::LT);
  TCMP(mask, b, b, CmpMode::LT);
  TCMP(bits, a, b, CmpMode::LT);  // as many as a has
  EXPECT_THAT(error_of([&] { TSEL(d, few, b, b); }), lacks("TSEL (d, mask, a, b)", 1));
  EXPECT_THAT(error_of([&] { TSEL(d, bits, b, a); }), lacks("TSEL (d, mask, a, b)", 3));
  EXPECT_THAT(error_of([&] { TSELS(d, few, b, tmp, 2.0f); }),
              lacks("TSELS (d, mask, a, tmp, scalar)", 1));
  EXPECT_THAT(error_of([&] { TSELS(d, bits, a, tmp, 2.0f); }),
              lacks("TSELS (d, mask, a, tmp, scalar)", 2));
  TSEL(d, mask, b, b);
  TSELS(a, few, b, tmp, 2.0f);
}

TEST(CheckedRegions, what_is_expanded_has_the_rows_or_the_columns_of_the_destination) {
  using Rows = Tile<TileType::Vec, float, 4, 16, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  Rows d(3, 12), whole(3, 12), column(3, 1), block(3, 8), few(2, 1), four(3, 4), line(1, 12);
  for (Rows* tile : {&whole, &column, &block, &few, &four, &line}) TEXPANDS(*tile, 1.0f);
  const auto says = [](const char* text) { return testing::HasSubstr(text); };
  TROWEXPANDSUB(d, whole, column);
  TROWEXPANDSUB(d, block, whole);
  TROWEXPAND(d, column);
  TCOLEXPAND(d, line);
  TCOLEXPANDMUL(d, whole, line);
  EXPECT_ERROR(
      TROWEXPANDSUB(d, whole, four),
      "TROWEXPAND... (d, a, b): the operand that is expanded has 4 valid columns, not 1 or "
      "the 8 of 32 bytes",
      "one column goes to all of a row, 32 bytes go to it over and over",
      "limit its valid columns, or give the other operand those of the destination");
  EXPECT_THAT(error_of([&] { TROWEXPANDSUB(d, whole, few); }),
              says("TROWEXPANDSUB (d, a, b): source 2 has 2 valid rows of the 3 over"));
  EXPECT_THAT(error_of([&] { TROWEXPAND(d, few); }), says("source 1 has 2 valid rows of the 3"));
  EXPECT_THAT(error_of([&] { TCOLEXPAND(d, block); }),
              says("TCOLEXPAND (d, s): source 1 has 8 valid columns of the 12"));
  EXPECT_THAT(error_of([&] { TCOLEXPANDMUL(d, whole, block); }),
              says("source 2 has 8 valid columns of the 12"));
  EXPECT_THAT(error_of([&] { TCOLEXPANDMUL(d, line, line); }),
              says("source 1 has 1 valid row of the 3"));
  d.SetValidRow(0);
  TROWEXPAND(d, few);  // computes nothing
}

TEST(CheckedRegions, a_valid_region_lies_within_its_tile) {
  AnyRow row(64);
  EXPECT_ERROR(row.SetValidCol(65), "65 valid columns in a tile of 64 columns",
               "a valid region lies within its tile",
               "limit it: min(n, Tile::Rows) or min(n, Tile::Cols), 0 at least");
  EXPECT_THAT(error_of([] { const AnyRow negative(-1); }),
              testing::HasSubstr("-1 valid columns in a tile of 64 columns"));
  EXPECT_EQ(row.GetValidCol(), 64);
}

TEST(CheckedRegions, valid_sizes_of_a_type_stay) {
  AnyRow row(5);
  row.SetValidShape(1, 7);
  EXPECT_ERROR(row.SetValidRow(0), "0 valid rows for a tile whose type has 1",
               "a number in the type of a tile stays", "declare the tile with RowValid DYNAMIC");
  Square square;
  EXPECT_THAT(error_of([&] { square.SetValidShape(16, 8); }),
              testing::HasSubstr("8 valid columns for a tile whose type has 16"));
  EXPECT_EQ(row.GetValidCol(), 7);
}

TEST(CheckedRegions, positions_lie_within_their_tile) {
  Square s;
  EXPECT_ERROR(s.SetValue(256, 1.0f), "element 256 of a tile that stores 256 elements",
               "GetValue and SetValue count the stored elements from 0 on",
               "use a smaller position");
  EXPECT_ERROR(static_cast<void>(s.GetElement(3, 16)), "element (3, 16) of a 16 x 16 tile",
               "rows and columns count from 0 on and lie within the tile",
               "use GetElement, SetElement and TSUBVIEW within Tile::Rows and Tile::Cols");
  EXPECT_THAT(error_of([&] { s.AddToElement(-1, 0, 1.0f); }), testing::HasSubstr("(-1, 0)"));
  EXPECT_THAT(error_of([&] { static_cast<void>(s.GetValue(-1)); }), testing::HasSubstr("-1"));
  s.SetElement(15, 15, 2.0f);
  EXPECT_EQ(s.GetValue(255), 2.0f);
}

TEST(CheckedRegions, a_window_ends_within_its_source) {
  Square s;
  Tile<TileType::Vec, float, 4, 16, BLayout::RowMajor, DYNAMIC, 8> part(3);
  TSUBVIEW(part, s, 13, 8);
  EXPECT_ERROR(TSUBVIEW(part, s, 14, 0), "element (16, 7) of a 16 x 16 tile",
               "rows and columns count from 0 on and lie within the tile",
               "use GetElement, SetElement and TSUBVIEW within Tile::Rows and Tile::Cols");
  EXPECT_THAT(error_of([&] { TSUBVIEW(part, s, 0, 9); }), testing::HasSubstr("(2, 16)"));
  part.SetValidRow(0);
  TSUBVIEW(part, s, 16, 0);  // nothing is reached through it
}

TEST(CheckedRegions, a_window_begins_within_its_source) {
  static Tile<TileType::Vec, float, 1, 131072> s;
  Tile<TileType::Vec, float, 1, 64> part;
  s.SetValue(65600, 3.0f);
  TSUBVIEW(part, s, 0, 65600);
  EXPECT_EQ(part.GetValue(0), 3.0f);
  EXPECT_THAT(error_of([&] { TSUBVIEW(part, s, 0, -1); }),
              testing::HasSubstr("element (0, -1) of a 1 x 131072 tile"));
}

TEST(CheckedRegions, views_of_pairs_count_numbers) {
  static float4_e2m1x2_t pairs[32];
  pto_register_range(pairs, sizeof pairs);
  EXPECT_EQ(GlobalTensor(pairs).count(), 64);
  Tile<TileType::Vec, float4_e2m1x2_t, 1, 64> all;
  Tile<TileType::Vec, float4_e2m1x2_t, 1, 128> more;
  using View = GlobalTensor<float4_e2m1x2_t, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 64, 1>>;
  TLOAD(all, View(pairs));
  TLOAD(all, GlobalTensor(pairs, 64));
  EXPECT_THAT(error_of([&] { TLOAD(more, GlobalTensor(pairs, 66)); }),
              testing::HasSubstr("the view reaches 1 byte beyond its memory"));
  pto_unregister_range(pairs);
}

TEST(CheckedRegions, a_view_in_fractals_is_touched_where_the_tile_is_valid) {
  static half upper[16 * 16];
  pto_register_range(upper, sizeof upper);
  using View = GlobalTensor<half, TileShape2D<half, 32, 16, Layout::NZ>,
                            BaseShape2D<half, 32, 16, Layout::NZ>, Layout::NZ>;
  TileNz<TileType::Mat, half, 32, 16> all;
  Tile<TileType::Mat, half, 32, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor> part;
  TLOAD(part, View(upper));
  EXPECT_THAT(error_of([&] { TLOAD(all, View(upper)); }),
              testing::HasSubstr("the view reaches 512 bytes beyond its memory"));
  pto_unregister_range(upper);
}

void stores_a_half(half value, float* out) { *out = value; }

TEST(CheckedRegions, a_kernel_takes_a_half) {
  float out = 0;
  EXPECT_EQ(EXEC_KERNEL_CMD(stores_a_half, 1, half(2.5f), &out), 0);
  EXPECT_EQ(out, 2.5f);
}

TEST(CheckedRegions, addresses_of_tiles_are_aligned_and_lie_within_their_location) {
  Row row;
  EXPECT_ERROR(TASSIGN(row, 100),
               "TASSIGN: address 100 of a tile of 256 bytes in Vec is no multiple of 32",
               "tiles begin at multiples of 32 bytes", "round the address up");
  EXPECT_ERROR(TASSIGN(row, (512 << 10) - 32),
               "TASSIGN: address 524256 of a tile of 256 bytes in Vec, which has 524288",
               "a tile lies within the memory of its location",
               "use a lower address or a smaller tile");
}

TEST(CheckedRegions, a_window_has_the_steps_of_its_source) {
  Square s;
  Tile<TileType::Vec, float, 16, 8> narrow;
  EXPECT_ERROR(TSUBVIEW(narrow, s, 0, 8),
               "TSUBVIEW (d, s, r, c): element (15, 0) lies 120 elements behind the first one in "
               "the window, but 240 in its source",
               "a window is a part of its source's storage, in the same layout",
               "give the window the layout and the Cols of its source (the Rows of a column-major "
               "one), and limit its valid region");
  Tile<TileType::Vec, float, 1, 8> one;
  TSUBVIEW(one, s, 3, 8);  // a single row needs no other
  TileNz<TileType::Mat, float, 32, 16> boxed;
  TileNz<TileType::Mat, float, 16, 16> lower;
  EXPECT_THAT(error_of([&] { TSUBVIEW(lower, boxed, 16, 0); }),
              testing::HasSubstr("element (0, 15) lies 135 elements behind the first one in the "
                                 "window, but 263 in its source"));
}

}  // namespace
