// SPDX-License-Identifier: Apache-2.0
// Kernels that check themselves: the valid regions of their tiles, positions and windows.
#define PTO_CHECKED
#define PTO_PORTABLE
#undef PTO_ENTER  // of a build that notes what runs
#include "pto/isa/kernel/checked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

float g[64];  // a name that the headers use too, which g++ does not mind

#pragma GCC diagnostic error "-Wshadow"
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
               "an instruction runs over the valid region of its destination, some over that of a "
               "source",
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

// --- what instructions write by the valid regions of their sources

template <class T, int R, int C>
using Any = Tile<TileType::Vec, T, R, C, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <class... D>
void write(D&... d) {
  (TEXPANDS(d, typename D::DType(1)), ...);
}
#define EXPECT_SAYS(text, ...) EXPECT_THAT(error_of([&] { __VA_ARGS__; }), testing::HasSubstr(text))
#define PTO_WRITES "the instruction writes what comes of the valid regions of its sources"

TEST(CheckedRegions, a_destination_has_room_for_what_comes_of_the_source) {
  Any<float, 8, 32> s(8, 32);
  Any<uint32_t, 8, 32> order(8, 32);
  Any<int32_t, 8, 32> index(8, 1), line(1, 32);
  Any<int32_t, 1, 8> count(1, 1);
  Any<float, 1, 8> few(1, 8);
  Any<float, 1, 16> odd(1, 16), even(1, 16);
  Any<float, 1, 64> records(1, 64);
  write(s, order);
  EXPECT_ERROR(TDEINTERLEAVE(odd, even, s),
               "TDEINTERLEAVE (d1, d0, s): destination 1 has 1 row, but the instruction writes 8",
               PTO_WRITES, "give the destination more room, or shrink the source's valid region");
  EXPECT_SAYS("TSORT32 (d, s, idx, [tmp]): destination 1 has 1 row, but the instruction writes 8",
              TSORT32(records, s, order));
  const std::string one = " (dVal, dIdx, s, tmp): destination 1 has 1 row, but the instruction";
  EXPECT_SAYS("TROWARGMAX" + one, TROWARGMAX(few, index, s, s));
  EXPECT_SAYS("TROWARGMIN" + one, TROWARGMIN(few, index, s, s));
  const std::string eight = " (dVal, dIdx, s, tmp): destination 1 has 8 columns, but the";
  EXPECT_SAYS("TCOLARGMAX" + eight, TCOLARGMAX(few, line, s, s));
  EXPECT_SAYS("TCOLARGMIN" + eight, TCOLARGMIN(few, line, s, s));
  EXPECT_SAYS("destination 2 has 1 row, but the instruction writes 8",
              (TGATHER<decltype(index), decltype(s), decltype(s), decltype(count), decltype(s),
                       CmpMode::GT>)(index, s, s, count, s, 0));
  s.SetValidRow(1);
  TDEINTERLEAVE(odd, even, s);
  line.SetValidShape(1, 1);
  few.SetValidShape(1, 1);
  TROWARGMAX(few, line, s, s);
}

TEST(CheckedRegions, groups_of_quantised_numbers_have_room) {
  Any<float, 40, 256> s(40, 64);
  Any<int8_t, 40, 256> d(40, 64);
  Any<uint8_t, 1, 96> exponents(1, 96), again(1, 96);
  Any<float, 1, 96> most(1, 96), scaling(1, 96);
  Any<float, 1, 64> few(1, 64);
  constexpr auto kType = QuantType::MXFP8;
  write(s);
  TQUANT<kType>(d, s, &exponents, &most, &scaling);  // 40 rows of 2 groups
  EXPECT_SAYS("destination 3 has 64 elements, but the instruction writes 80",
              TQUANT<kType>(d, s, &exponents, &few, &scaling));
  d.SetValidShape(8, 256);
  s.SetValidShape(8, 256);
  write(s);
  TQUANT<kType>(d, s, &exponents, &most, &scaling);
  EXPECT_SAYS(
      "exp_zz, [idx], <MX, NZ>): destination 5 has 96 elements, but the instruction "
      "writes 128",
      (TQUANT<kType, VecStoreMode::NZ>(d, s, &exponents, &most, &scaling, &again)));
  d.SetValidCol(64);
  s.SetValidCol(64);
  TQUANT<0, MxQuantAlg::NvMxFp8E4M3>(d, s, &exponents, &most, &scaling);
  EXPECT_SAYS("destination 2 has 96 elements, but the instruction writes 128",
              (TQUANT<0, MxQuantAlg::NvMxFp8E4M3, true>(d, s, &exponents, &most, &scaling)));
  d.SetValidRow(9);
  EXPECT_SAYS("destination 1 has 9 valid rows, but the instruction writes 8",
              TQUANT<kType>(d, s, &exponents, &most, &scaling));
}

TEST(CheckedRegions, no_more_of_a_destination_is_valid_than_comes_of_the_source) {
  Any<float, 8, 32> s(4, 12), d(8, 1), line(1, 32), two(1, 24);
  Any<float, 1, 64> list(1, 64), merged(1, 64);
  write(s, list);
  EXPECT_ERROR(TROWSUM(d, s, s),
               "TROWSUM (d, s): destination 1 has 8 valid rows, but the instruction writes 4",
               PTO_WRITES, "shrink the destination's valid region, or widen that of the source");
  EXPECT_SAYS("TROWMAX (d, s): destination 1 has 8 valid rows", TROWMAX(d, s, s));
  EXPECT_SAYS("TCOLSUM (d, s): destination 1 has 32 valid columns, but the instruction writes 12",
              TCOLSUM(line, s));
  EXPECT_SAYS(
      "TCONCAT (d, a, b): destination 1 has 32 valid columns, but the instruction "
      "writes 24",
      TCONCAT(line, s, s));
  list.SetValidCol(32);
  EXPECT_SAYS("TMRGSORT (d, s, blockLen): destination 1 has 64 valid columns",
              TMRGSORT(merged, list, 16));
  d.SetValidRow(4);
  TROWSUM(d, s, s);
  line.SetValidCol(12);
  TCOLSUM(line, s);
  TCONCAT(two, s, s);
}

TEST(CheckedRegions, products_take_what_is_valid) {
  TileLeft<float, 16, 16, DYNAMIC, DYNAMIC> a(5, 7);
  TileRight<float, 16, 16, DYNAMIC, DYNAMIC> b(6, 9);
  TileAcc<float, 16, 16, DYNAMIC, DYNAMIC> c(5, 9);
  Tile<TileType::Bias, float, 1, 16, BLayout::RowMajor, 1, DYNAMIC> bias(8);
  write(a, b, bias);
  EXPECT_SAYS("TMATMUL (c, a, b): source 2 has 6 valid rows of the 7", TMATMUL(c, a, b));
  b.SetValidRow(7);
  write(b);
  TMATMUL(c, a, b);
  EXPECT_SAYS("TMATMUL_BIAS (c, a, b, bias): source 3 has 8 valid columns of the 9",
              TMATMUL_BIAS(c, a, b, bias));
  c.SetValidRow(6);
  EXPECT_SAYS("TMATMUL (c, a, b): destination 1 has 6 valid rows, but", TMATMUL(c, a, b));
}

TEST(CheckedRegions, sources_beside_the_first_are_valid_too) {
  Any<float, 8, 16> a(8, 16), b(8, 16), few(2, 16), d(8, 16), e(8, 16);
  Any<int32_t, 8, 16> index(8, 16), less(2, 1), chosen(8, 16);
  Any<uint32_t, 8, 16> offsets(2, 2), order(2, 16);
  Any<float, 8, 32> records(8, 32);
  Any<uint16_t, 8, 16> numbers(8, 16);
  Any<uint8_t, 8, 32> bytes(2, 1);
  Any<uint32_t, 8, 256> bins(8, 256);
  write(a, b, few, d, index, less, offsets, order, numbers, bytes);
  const std::string lacks = " has 2 valid rows of the 8 over which it runs";
  EXPECT_SAYS("TINTERLEAVE (d1, d0, s1, s0): source 1" + lacks, TINTERLEAVE(d, e, few, a));
  EXPECT_SAYS("TDEINTERLEAVE (d1, d0, s1, s0): source 2" + lacks, TDEINTERLEAVE(d, e, a, few));
  EXPECT_SAYS("TCONCAT (d, a, b): source 1" + lacks, TCONCAT(d, few, a));
  EXPECT_SAYS("TCONCAT (d, a, b, aIdx, bIdx): source 4" + lacks, TCONCAT(d, a, b, index, less));
  EXPECT_SAYS("aIdx, bIdx): source 3" + lacks, TCONCAT(d, a, b, chosen, less, index));
  EXPECT_SAYS("TPARTARGMAX (d, a, b, dIdx, aIdx, bIdx): source 3" + lacks,
              TPARTARGMAX(d, a, b, chosen, less, index));
  EXPECT_SAYS("TPARTARGMIN (d, a, b, dIdx, aIdx, bIdx): source 4" + lacks,
              TPARTARGMIN(d, a, b, chosen, index, less));
  TPARTARGMAX(d, few, b, chosen, index, index);
  EXPECT_SAYS("TGATHER (d, s, index, tmp): source 2" + lacks, TGATHER(d, a, less, e));
  EXPECT_SAYS("TGATHERB (d, s, off): source 2" + lacks, TGATHERB(d, a, offsets));
  EXPECT_SAYS("TSCATTER (d, s, index): source 1" + lacks, TSCATTER(d, few, index));
  EXPECT_SAYS("TSORT32 (d, s, idx, [tmp]): source 2" + lacks, TSORT32(records, a, order));
  EXPECT_SAYS("THISTOGRAM (d, s, idx, <byte>): source 2" + lacks,
              THISTOGRAM<HistByte::BYTE_0>(bins, numbers, bytes));
  alignas(64) float table[64] = {};
  EXPECT_SAYS("MGATHER (d, g, index, <mode, oob>): source 2" + lacks,
              MGATHER<Coalesce::Row>(d, GlobalTensor(table, 64), less));
  EXPECT_SAYS("MSCATTER (g, s, index): source 2" + lacks,
              MSCATTER(GlobalTensor(table, 64), a, less));
  less.SetValidShape(1, 8);
  TEXPANDS(less, 0);
  MGATHER<Coalesce::Row>(d, GlobalTensor(table, 64), less);  // eight indices in a row
}

TEST(CheckedRegions, quantised_tiles_have_valid_sources) {
  Any<float, 8, 32> s(2, 32), back(8, 32), scale(8, 32), more(8, 1);
  Any<int8_t, 8, 32> d(8, 32);
  Any<uint8_t, 8, 32> e(2, 32);
  Any<float, 8, 32> steps(1, 1), offset(1, 1);
  write(s, scale, more, steps);
  EXPECT_SAYS("TQUANT (d, s, scale, [tmp], <INT8>): source 1 has 2 valid rows of the 8",
              TQUANT<QuantType::INT8_SYM>(d, s, steps));
  EXPECT_SAYS(
      "TQUANT (d, s, scale, [tmp], offset, <INT8>): source 3, a 8 x 32 tile in Vec, was "
      "never written",
      TQUANT<QuantType::INT8_ASYM>(e, s, steps, &offset));
  write(offset, d);
  TQUANT<QuantType::INT8_ASYM>(e, s, steps, &offset);  // the last step serves the rows beyond
  EXPECT_SAYS("TDEQUANT (d, s, scale, offset): source 3 has 1 valid column of the 32",
              TDEQUANT(back, d, scale, more));
  d.SetValidRow(2);
  EXPECT_SAYS("TDEQUANT (d, s, scale, offset): source 1 has 2 valid rows of the 8",
              TDEQUANT(back, d, scale, scale));
}

TEST(CheckedRegions, a_part_that_is_inserted_or_scattered_leaves_the_rest_unwritten) {
  Tile<TileType::Vec, float, 8, 32> s;
  Tile<TileType::Vec, float, 8, 64> d, sum;
  Tile<TileType::Vec, int32_t, 8, 32> index;
  TASSIGN<0x20000>(d);  // where no other test writes
  TEXPANDS(s, 1.0f);
  TEXPANDS(index, 300);
  TINSERT(d, s, 0, 0);
  EXPECT_SAYS("was not written at row 0, column 32", TADDS(sum, d, 1.0f));
  TINSERT(d, s, 0, 32);
  TADDS(sum, d, 1.0f);
  TASSIGN<0x40000>(d);
  TSCATTER(d, s, index);  // to row 4, column 44
  EXPECT_SAYS("was not written at row 0, column 0", TADDS(sum, d, 1.0f));
  d.data()[0] = 2.0f;  // whoever takes a pointer may write everything
  TADDS(sum, d, 1.0f);
}

}  // namespace
