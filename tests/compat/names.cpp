// SPDX-License-Identifier: Apache-2.0
// Members and functions that sources take from the simulator's tiles, views and memories.
#include <gtest/gtest.h>

#include <pto/pto-inst.hpp>

using namespace pto;

static_assert(IsTwinType<float4_e2m1x2_t>() && IsTwinType<float4_e1m2x2_t>());
static_assert(!IsTwinType<float>() && !::IsTwinType<float8_e4m3_t>());

using OfHalf = std::numeric_limits<pto::half>;
using OfBrain = std::numeric_limits<pto::bfloat16_t>;
static_assert(OfHalf::digits10 == 3 && OfHalf::max_digits10 == 5);
static_assert(OfHalf::min_exponent10 == -4 && OfHalf::max_exponent10 == 4);
static_assert(OfBrain::digits10 == 2 && OfBrain::max_digits10 == 4);
static_assert(OfBrain::min_exponent10 == -37 && OfBrain::max_exponent10 == 38);

TEST(Names, limits_of_short_floats_are_numbers_of_their_type) {
  EXPECT_EQ(OfHalf::round_error().RawData(), 0x3800);
  EXPECT_EQ(OfBrain::round_error().RawData(), 0x3f00);
  EXPECT_EQ(OfHalf::signaling_NaN().RawData(), 0x7c01);
  EXPECT_EQ(OfBrain::signaling_NaN().RawData(), 0x7f81);
}

TEST(Names, a_tile_keeps_the_hint_about_its_columns) {
  TileLeft<float, 16, 32> a;
  EXPECT_FALSE(a.GetKAligned());
  a.SetKAligned(true);
  EXPECT_TRUE(a.GetKAligned());
  a.SetMadTF32Mode(RoundMode::CAST_RINT);
  a.ResetMadMode();
  EXPECT_TRUE(a.GetKAligned());
  Tile<TileType::Vec, half, 4, 16, BLayout::RowMajor, DYNAMIC, DYNAMIC> b(3, 5);
  EXPECT_FALSE(b.GetKAligned());
}

TEST(Names, scales_lie_at_a_sixteenth_of_their_operand) {
  TileLeft<float8_e4m3_t, 16, 64> a;
  TileRight<float8_e4m3_t, 64, 16> b;
  TileLeftScale<float8_e8m0_t, 16, 2> a_scale;
  TASSIGN(a, 0x800);
  TASSIGN(b, 0x0);
  EXPECT_EQ(GetScaleAddr(a.data()), 0x80u);
  EXPECT_EQ(GetScaleAddr(b.data() + 32), 2u);
  TASSIGN(a_scale, GetScaleAddr(a.data()));
  TileLeftScale<float8_e8m0_t, 16, 2> same;
  TASSIGN(same, 0x80);
  EXPECT_EQ(a_scale.data(), same.data());
  TileLeft<float8_e4m3_t, 16, 64> own;  // in no memory of the core
  TASSIGN(a_scale, GetScaleAddr(own.data()));
  EXPECT_NE(a_scale.data(), same.data());
}

TEST(Names, elements_of_a_view_are_read_and_written) {
  float memory[64] = {};
  GlobalTensor<float, pto::Shape<1, 1, 2, 3, 4>, pto::Stride<48, 48, 24, 8, 2>> g(memory);
  g.SetElement(0, 0, 1, 2, 3, 5.f);
  EXPECT_EQ(memory[24 + 16 + 6], 5.f);
  EXPECT_EQ(g.GetElement(46), 5.f);
  g.SetElement(2, 1);
  EXPECT_EQ(g.GetElement(0, 0, 0, 0, 1), 1.f);

  float4_e2m1x2_t pairs[8] = {};  // two elements a byte
  GlobalTensor<float4_e2m1x2_t, pto::Shape<1, 1, 1, 1, 16>, pto::Stride<16, 16, 16, 16, 1>> p(
      pairs);
  p.SetElement(3, float4_e2m1x2_t(1.5f));
  p.SetElement(2, float4_e2m1x2_t(-6.f));
  EXPECT_EQ(float(p.GetElement(3)), 1.5f);
  EXPECT_EQ(pairs[1].first(), -6.f);
  EXPECT_EQ(pairs[1].second(), 1.5f);
  EXPECT_EQ(float(p.GetElement(0)), 0.f);
  SetProperDataPart(pairs, 5, float4_e2m1x2_t(4.f));
  EXPECT_EQ(float(GetProperDataPart(pairs, 5)), 4.f);
  EXPECT_EQ(pairs[2].second(), 4.f);
}
