// SPDX-License-Identifier: Apache-2.0
// Narrow floats of 8 and 4 bits: float8_e4m3_t, float8_e5m2_t, float8_e8m0_t, and the pairs
// float4_e2m1x2_t and float4_e1m2x2_t.
//
//     float8_e4m3_t x = 0.3f;                          // rounds to nearest even
//     float f = x;
//     Tile<TileType::Vec, float8_e5m2_t, 16, 64> t;
//     TCVT(t, floats, RoundMode::CAST_FLOOR);
//     float4_e2m1x2_t two(1.5f, -6.f);
//     two.second();                                    // -6
//
// The bits sEEEEMMM mean 2^(E - bias) * 1.M, and 2^(1 - bias) * 0.M where E is 0.
//   e4m3   bias 7   up to 448, no infinity, NaN is all ones
//   e5m2   bias 15  up to 57344, infinities and NaN as in IEEE 754
//   e8m0   2^(E - 127) without sign, zero or mantissa; NaN is all ones
//   e2m1   bias 1   0 0.5 1 1.5 2 3 4 6, every code a number
//   e1m2   bias 1   multiples of 1/4 to 1.75
// A number that is too large becomes infinity, NaN where there is no infinity, the largest number
// where there is neither, as in ml_dtypes. NaN becomes NaN, or the largest number where there is
// none.
// Tiles and views of pairs count numbers, two in each byte of a line, wherever tiles are moved,
// padded, transposed or multiplied, and in GetElement; data() and pointers count bytes. TCVT and
// TQUANT take tiles that count bytes, too.
//
// Invariant: each is one byte; 8-bit types compute in float, a pair is moved and converted only.
// Thread safety: values.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace bits {

// The meaning of a format's largest codes: infinity and NaN, one NaN, or numbers.
enum class Top { kInfinity, kNan, kNumber };

// U is uint32_t or a vector of them, F float or a vector of them; a code lies in U's low bits.
template <int ExponentBits, int MantissaBits, int Bias, Top Largest>
struct Minifloat {
  static constexpr int kMantissa = MantissaBits, kLeastExponent = 1 - Bias;
  static constexpr int kSmallestExponent = kLeastExponent - MantissaBits;
  static constexpr Top kTop = Largest;
  static constexpr uint32_t kSign = 1u << (ExponentBits + MantissaBits);
  static constexpr uint32_t kInfinity = ((1u << ExponentBits) - 1) << MantissaBits;
  static constexpr uint32_t kMaxCode = kTop == Top::kInfinity ? kInfinity - 1
                                       : kTop == Top::kNan    ? kSign - 2
                                                              : kSign - 1;
  // The largest number, as the bits of a float.
  static constexpr uint32_t kMaxFloat =
      (kMaxCode << (23 - MantissaBits)) + (uint32_t(127 - Bias) << 23);

  // Rounds to nearest even. A sum with 2^(23 + the exponent of the smallest number) rounds to its
  // multiples.
  template <class F, class U>
  static PTO_INLINE U encode(F x) {
    constexpr int kShift = 23 - MantissaBits;
    constexpr uint32_t kRebias = uint32_t(127 - Bias) << 23;
    constexpr uint32_t kTiny = uint32_t(127 + 23 + kLeastExponent - MantissaBits) << 23;
    const U all = bit_cast<U>(x), magnitude = all & 0x7fffffffu;
    const U normal =
        (magnitude - kRebias + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1u)) >> kShift;
    const U tiny = bit_cast<U>(bit_cast<F>(magnitude) + bit_cast<float>(kTiny)) - kTiny;
    U code = select(magnitude < uint32_t(127 + kLeastExponent) << 23, tiny, normal);
    const U most = (all & 0u) + (kTop == Top::kNumber ? kMaxCode : kMaxCode + 1);
    code = select(code > most, most, code);
    const U sign = (all >> (31 - ExponentBits - MantissaBits)) & kSign;
    if constexpr (kTop == Top::kNan) return code | sign;
    const U nan =
        (all & 0u) + (kTop == Top::kInfinity ? kInfinity + (1u << (MantissaBits - 1)) : kMaxCode);
    if constexpr (kTop == Top::kNumber)
      return select(magnitude > 0x7f800000u, nan, code | sign);
    else
      return select(magnitude > 0x7f800000u, nan, code) | sign;
  }

  template <class F, class U>
  static PTO_INLINE F decode(U code) {
    const U magnitude = (code & (kSign - 1)) << (23 - MantissaBits);
    const U scaled =
        bit_cast<U>(bit_cast<F>(magnitude) * bit_cast<float>(uint32_t(254 - Bias) << 23));
    const U sign = (code & kSign) << (31 - ExponentBits - MantissaBits);
    if constexpr (kTop == Top::kNumber) return bit_cast<F>(scaled | sign);
    constexpr uint32_t kSpecial = (kMaxCode + 1) << (23 - MantissaBits);
    const U special = kTop == Top::kNan ? (magnitude | 0x7fc00000u) : (magnitude | 0x7f800000u);
    return bit_cast<F>(select(magnitude >= kSpecial, special, scaled) | sign);
  }
};

struct E4M3 : Minifloat<4, 3, 7, Top::kNan> {
  static constexpr const char* kElementName = "e4m3";
};
struct E5M2 : Minifloat<5, 2, 15, Top::kInfinity> {
  static constexpr const char* kElementName = "e5m2";
};
struct E2M1 : Minifloat<2, 1, 1, Top::kNumber> {
  static constexpr const char* kElementName = "e2m1x2";
};
struct E1M2 : Minifloat<1, 2, 1, Top::kNumber> {
  static constexpr const char* kElementName = "e1m2x2";
};

// Powers of two. Zero and negative numbers have none and become NaN; a number below the smallest
// becomes the smallest.
struct E8M0 {
  static constexpr const char* kElementName = "e8m0";
  static constexpr int kSmallestExponent = -127;
  static constexpr Top kTop = Top::kNan;
  static constexpr uint32_t kMaxFloat = 0x7f000000u;

  template <class F, class U>
  static PTO_INLINE U encode(F x) {
    // Ties go up: a significand of one bit is odd. Subnormals are 2^-127 until halfway to 2^-126.
    const U all = bit_cast<U>(x), normal = (all + 0x400000u) >> 23;
    const U one = (all & 0u) + 1u, nan = (all & 0u) + 0xffu;
    const U code = select(all < 0x00800000u, select(all >= 0x00600000u, one, one - 1u), normal);
    return select((all == 0u) | (all >= 0x7f800000u), nan, code);
  }
  template <class F, class U>
  static PTO_INLINE F decode(U code) {
    const U least = (code & 0u) + 0x00400000u, nan = (code & 0u) + 0x7fc00000u;
    const U value = select(code == 0u, least, code << 23);
    return bit_cast<F>(select(code == 0xffu, nan, value));
  }
};

}  // namespace bits

// A float of 8 bits.
template <class F>
struct NarrowFloat {
  using Format = F;
  static constexpr const char* kElementName = F::kElementName;
  uint8_t raw;

  NarrowFloat() = default;
  PTO_INLINE NarrowFloat(float value) : raw(uint8_t(F::template encode<float, uint32_t>(value))) {}
  PTO_INLINE operator float() const { return F::template decode<float, uint32_t>(raw); }
  static PTO_INLINE NarrowFloat FromRaw(uint8_t raw) {
    NarrowFloat x;
    x.raw = raw;
    return x;
  }
  PTO_INLINE uint8_t RawData() const { return raw; }
};

// Two floats of 4 bits: the first in the low half. From and to one float: the first.
template <class F>
struct FloatPair {
  using Format = F;
  static constexpr const char* kElementName = F::kElementName;
  uint8_t raw;

  FloatPair() = default;
  PTO_INLINE FloatPair(float first) : raw(uint8_t(F::template encode<float, uint32_t>(first))) {}
  PTO_INLINE FloatPair(float first, float second)
      : raw(uint8_t(F::template encode<float, uint32_t>(first) |
                    F::template encode<float, uint32_t>(second) << 4)) {}
  PTO_INLINE float first() const { return F::template decode<float, uint32_t>(raw & 15u); }
  PTO_INLINE float second() const { return F::template decode<float, uint32_t>(raw >> 4); }
  PTO_INLINE operator float() const { return first(); }
  static PTO_INLINE FloatPair FromRaw(uint8_t raw) {
    FloatPair x;
    x.raw = raw;
    return x;
  }
  PTO_INLINE uint8_t RawData() const { return raw; }
};

using float8_e4m3_t = NarrowFloat<bits::E4M3>;
using float8_e5m2_t = NarrowFloat<bits::E5M2>;
using float8_e8m0_t = NarrowFloat<bits::E8M0>;
using float4_e2m1x2_t = FloatPair<bits::E2M1>;
using float4_e1m2x2_t = FloatPair<bits::E1M2>;

template <class F>
constexpr bool kIsTwin<FloatPair<F>> = true;

template <class F>
struct ElementTraits<NarrowFloat<F>> : HeldAs<uint8_t, float> {};
template <class F>
struct ElementTraits<FloatPair<F>> : HeldAs<uint8_t, uint8_t> {};

template <class F>
struct Codec<NarrowFloat<F>> {
  template <int N>
  static PTO_INLINE Vec<float, N> widen(Vec<uint8_t, N> raw) {
    return F::template decode<Vec<float, N>>(lanes::convert<uint32_t>(raw));
  }
  template <int N>
  static PTO_INLINE Vec<uint8_t, N> narrow(Vec<float, N> v) {
    return lanes::convert<uint8_t>(F::template encode<Vec<float, N>, Vec<uint32_t, N>>(v));
  }
};

PTO_NAMESPACE_END
