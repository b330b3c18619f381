// SPDX-License-Identifier: Apache-2.0
// Instructions of several steps against one element at a time, over types and valid regions.
#include "pto/isa/elementwise/fused.hpp"

#include <gtest/gtest.h>

#include "tests/isa_oracle.hpp"

namespace pto::fused_test {
using namespace isa;

template <class T>
using Region = Tile<TileType::Vec, T, 3, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC>;

// Runs `call(d, a, b)` over valid regions; `want` gets the elements of a, b and the old d.
template <class Td, class T, class Call, class Want>
void check(const char* name, Call call, Want want, double ulps = 1) {
  for (int cols : {0, 1, 15, 33, 64}) {
    auto a = shaped<Region<T>>(cols % 3 + 1, cols), b = a;
    auto d = shaped<Region<Td>>(cols % 3 + 1, cols);
    fill(a, unsigned(cols) + 1), fill(b, unsigned(cols) + 2), fill(d, unsigned(cols) + 3);
    const auto before = d;
    call(d, a, b);
    EXPECT_EQ(differs(d, before, kIsFloat<Td> ? ulps : 0,
                      [&](int r, int c) -> Wide<Td> {
                        return want(a.GetElement(r, c), b.GetElement(r, c),
                                    before.GetElement(r, c));
                      }),
              "")
        << name << " of " << sizeof(T) << " bytes to " << sizeof(Td) << ", " << cols << " columns";
  }
}

template <class T>
void check_with_scalar() {
  const T s = T(3);
  check<T, T>(
      "TADDSC", [s](auto& d, auto& a, auto& b) { TADDSC(d, a, s, b); },
      [=](T a, T b, T) { return wide(a) + wide(s) + wide(b); });
  check<T, T>(
      "TSUBSC", [s](auto& d, auto& a, auto& b) { TSUBSC(d, a, s, b); },
      [=](T a, T b, T) { return wide(a) - wide(s) + wide(b); });
  check<T, T>(
      "TDIVS", [s](auto& d, auto& a, auto&) { TDIVS(d, s, a); },
      [=](T a, T, T) { return scalar::divide(wide(s), wide(a)); });
}

TEST(Fused, scalars_stand_between_and_before_the_tiles) {
  check_with_scalar<float>();
  check_with_scalar<half>();
  check_with_scalar<bfloat16_t>();
  check_with_scalar<int8_t>();
  check_with_scalar<uint8_t>();
  check_with_scalar<int16_t>();
  check_with_scalar<uint16_t>();
  check_with_scalar<int32_t>();
  check_with_scalar<uint32_t>();
  check_with_scalar<int64_t>();
  check_with_scalar<uint64_t>();
}

template <class Td, class T>
void check_axpy() {
  const T s = T(0.3f);
  check<Td, T>(
      "TAXPY", [s](auto& d, auto& a, auto&) { TAXPY(d, a, s); },
      [=](T a, T, Td old) { return wide(rounded<Td>(wide(s) * wide(a))) + wide(old); }, 1.5);
}

TEST(Fused, axpy_rounds_the_product_and_widens) {
  check_axpy<half, half>();
  check_axpy<bfloat16_t, bfloat16_t>();
  check_axpy<float, half>();
  check_axpy<float, bfloat16_t>();
  Region<float> x(1, 3), y(1, 3);
  for (int i = 0; i < 3; ++i) x.SetValue(i, float(i)), y.SetValue(i, 10);
  TAXPY(y, x, 2.0f);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y.GetValue(i), float(2 * i + 10));
  const float above = 1 + 0x1p-12f;  // its square is 2^-24 more than a float
  for (int i = 0; i < 3; ++i) x.SetValue(i, above), y.SetValue(i, -1 - 0x1p-11f);
  TAXPY(y, x, above);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(y.GetValue(i), 0);
}

template <class Td, class T>
void check_conversion() {
  const auto converted = [](Wide<T> sum) -> Wide<Td> {
    const Wide<T> stored = wide(rounded<T>(sum));
    const double value = double(scalar::relu(stored));
    if (kIsFloat<Td>) return Wide<Td>(value);
    const double high = double(highest<Compute<Td>>());
    if (std::isnan(value)) return 0;
    return Wide<Td>(value >= high ? high : std::rint(value));
  };
  check<Td, T>(
      "TADDRELUCONV", [](auto& d, auto& a, auto& b) { TADDRELUCONV(d, a, b); },
      [&](T a, T b, Td) { return converted(wide(a) + wide(b)); });
  check<Td, T>(
      "TSUBRELUCONV", [](auto& d, auto& a, auto& b) { TSUBRELUCONV(d, a, b); },
      [&](T a, T b, Td) { return converted(wide(a) - wide(b)); });
}

TEST(Fused, relu_of_sums_and_differences_converts_and_clamps) {
  check_conversion<half, float>();
  check_conversion<int8_t, half>();
  check_conversion<uint8_t, half>();
  check_conversion<int8_t, int16_t>();
  check_conversion<uint8_t, int16_t>();
}

template <class Td, class T>
void check_pack() {
  Tile<TileType::Vec, T, 2, 64, BLayout::RowMajor, 2, 50> a;
  Tile<TileType::Vec, Td, 2, 64, BLayout::RowMajor, 2, 50> d;
  for (int i = 0; i < a.Numel; ++i) a.SetValue(i, T(float(i * 997 % 400 - 200) / 8));
  TPACK(d, a);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 50; ++c) {
      const auto value = to_compute(a.GetElement(r, c));
      EXPECT_EQ(double(to_compute(d.GetElement(r, c))), double(to_compute(Td(value)))) << value;
    }
}

TEST(Fused, pack_converts_as_the_language_does) {
  check_pack<int16_t, int32_t>();
  check_pack<int32_t, int16_t>();
  check_pack<int8_t, int32_t>();
  check_pack<uint8_t, int16_t>();
  check_pack<half, float>();
  check_pack<float, half>();
  check_pack<int32_t, float>();
}

TEST(Fused, sums_of_integers_are_scaled_to_half) {
  check<half, int32_t>(
      "TADDDEQRELU",
      [](auto& d, auto& a, auto& b) {
        Region<uint8_t> tmp(1, 1);
        TADDDEQRELU(d, a, b, 0.25f, tmp);
      },
      [](int32_t a, int32_t b, half) {
        return double(std::max(0.f, 0.25f * float(int32_t(uint32_t(a) + uint32_t(b)))));
      });
}

}  // namespace pto::fused_test
