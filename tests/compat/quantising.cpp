// SPDX-License-Identifier: Apache-2.0
// The simulator's names for the steps of TQUANT give what the instruction gives.
#include <gtest/gtest.h>

#include <pto/pto-inst.hpp>

using namespace pto;

template <QuantType Type, QuantScaleAlg Alg, class T, class D>
void check_steps() {
  Tile<TileType::Vec, T, 4, 64> s;
  D d;
  Tile<TileType::Vec, uint8_t, 4, 32, BLayout::RowMajor, 4, 2> codes;
  Tile<TileType::Vec, float, 1, 8> most, scaling;
  for (int i = 0; i < 256; ++i) s.SetValue(i, T(float(i % 61 - 30) * (i < 64 ? 1e-3f : 7.f)));
  if (Type == QuantType::MXFP4_E2M1) s.SetValue(200, T(NAN));
  TQUANT<Type, D, decltype(s), decltype(codes), decltype(most), decltype(most), Alg>(
      d, s, &codes, &most, &scaling);
  for (int r = 0; r < 4; ++r)
    for (int g = 0; g < 2; ++g) {
      const float size = cpu_quant::ComputeMxGroupMax<1, Type, Alg>(s, r, g);
      const uint8_t code = cpu_quant::ComputeMxSharedExponent<Type, Alg>(size);
      const float scale = cpu_quant::ComputeMxGroupScaling<Type, Alg>(size, code);
      EXPECT_EQ(codes.GetElement(r, g), code);
      if (std::isnan(scale)) {
        EXPECT_TRUE(r == 3 && g == 0 && std::isnan(scaling.GetValue(6)));
        continue;
      }
      EXPECT_EQ(most.GetValue(2 * r + g), size);
      EXPECT_EQ(scaling.GetValue(2 * r + g), scale);
      for (int c = 32 * g; c < 32 * g + 32; ++c) {
        const float x = cpu_quant::ApplyE2M1ScaleForSource<T>(s.GetElement(r, c), scale);
        if constexpr (Type == QuantType::MXFP8)
          EXPECT_EQ(uint8_t(d.GetElement(r, c)), cpu_quant::EncodeE4M3Fn<Alg>(x));
        else
          EXPECT_EQ(d.GetElement(r, c).RawData(), cpu_quant::EncodeE2M1Magic(x));
      }
    }
}

TEST(Quantising, steps_by_name_give_what_the_instruction_gives) {
  using Bytes = Tile<TileType::Vec, int8_t, 4, 64>;
  using Pairs = Tile<TileType::Vec, float4_e2m1x2_t, 4, 64>;
  check_steps<QuantType::MXFP8, QuantScaleAlg::OCP, float, Bytes>();
  check_steps<QuantType::MXFP8, QuantScaleAlg::NV, pto::half, Bytes>();
  check_steps<QuantType::MXFP4_E2M1, QuantScaleAlg::OCP, pto::bfloat16_t, Pairs>();
  check_steps<QuantType::MXFP4_E2M1, QuantScaleAlg::NV, float, Pairs>();
}
