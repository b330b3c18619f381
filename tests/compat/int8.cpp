// SPDX-License-Identifier: Apache-2.0
// float to int8 through half as hardware does, by TQUANT, and back.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <pto/pto-inst.hpp>

using namespace pto;

namespace {

constexpr int kRows = 16, kCols = 64;
template <typename T>
using Whole = Tile<TileType::Vec, T, kRows, kCols, BLayout::RowMajor, kRows, kCols>;
using Scales = Tile<TileType::Vec, float, kRows, 1, BLayout::ColMajor, kRows, 1>;
template <typename T>
using View = GlobalTensor<T, Shape<1, 1, 1, kRows, kCols>, Stride<1, 1, 1, kCols, 1>>;

struct Case {
  std::vector<float> x = std::vector<float>(kRows * kCols);
  Case() {
    for (int i = 0; i < kRows * kCols; ++i) x[i] = (i * 89 % 1024 - 512) * 0.5f;
  }
};

}  // namespace

TEST(Int8, converts_through_half_and_saturates) {
  Case in;
  std::vector<int8_t> out(kRows * kCols);
  Whole<float> x;
  Whole<half> h;
  Whole<int8_t> y;
  TASSIGN(x, 0x0);
  TASSIGN(h, 0x2000);
  TASSIGN(y, 0x4000);
  View<float> xView(in.x.data());
  View<int8_t> yView(out.data());
  TLOAD(x, xView);
  TCVT(h, x, RoundMode::CAST_NONE);
  TCVT(y, h, RoundMode::CAST_RINT, SaturationMode::ON);
  TSTORE(yView, y);
  for (int i = 0; i < kRows * kCols; ++i) {
    const float rounded = std::nearbyint(in.x[i]);
    EXPECT_EQ(out[i], rounded < -128 ? -128 : rounded > 127 ? 127 : rounded) << in.x[i];
  }
}

TEST(Int8, quantises_rows_and_restores_them) {
  Case in;
  std::vector<float> out(kRows * kCols);
  Whole<float> x, restored;
  Whole<int8_t> y;
  Scales inverse, scale, zero;
  TASSIGN(x, 0x0);
  TASSIGN(restored, 0x2000);
  TASSIGN(y, 0x4000);
  TASSIGN(inverse, 0x5000);
  TASSIGN(scale, 0x5100);
  TASSIGN(zero, 0x5200);
  for (int r = 0; r < kRows; ++r) {
    inverse.SetValue(r, 0.25f);
    scale.SetValue(r, 4.0f);
    zero.SetValue(r, 0.0f);
  }
  View<float> xView(in.x.data()), outView(out.data());
  TLOAD(x, xView);
  TQUANT<QuantType::INT8_SYM>(y, x, inverse);
  TDEQUANT(restored, y, scale, zero);
  TSTORE(outView, restored);
  for (int i = 0; i < kRows * kCols; ++i)
    EXPECT_EQ(out[i], 4 * std::nearbyint(in.x[i] * 0.25f)) << in.x[i];
}
