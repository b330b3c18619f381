// SPDX-License-Identifier: Apache-2.0
// The groups of MX formats: 32 numbers along the rows or the columns share a power of two.
//
//     float scaling = isa::bit_cast<float>(isa::quantize::scaling_of(119u));  // 2^(127 - 119)
//
// quantize.hpp says what the exponents, magnitudes and scalings of groups are and where they lie.
//
// Invariant: rows x columns numbers are read, and what comes of them is written, no more.
// Thread safety: pure functions on memory of the caller.
#pragma once
#include "pto/isa/elementwise/convert_modes.hpp"

PTO_NAMESPACE_BEGIN

enum class QuantType { MXFP8, MXFP4_E2M1, INT8_SYM, INT8_ASYM };
enum class QuantScaleAlg { OCP, NV };

namespace quantize {

constexpr int kGroup = 32;

// Returns the e8m0 code of groups with these largest magnitudes. U is uint32_t or a vector.
template <QuantType Type, QuantScaleAlg Alg, class F, class U>
PTO_INLINE U shared_exponent(U magnitude) {
  const U zero = magnitude & 0u, one = zero + 1u, nan = zero + 255u;
  if constexpr (Alg == QuantScaleAlg::OCP) {
    constexpr uint32_t kLess = Type == QuantType::MXFP8 ? 8 : 2;
    const U exponent = magnitude >> 23;
    const U code = bits::select(exponent > kLess, exponent - kLess, zero);
    return bits::select(magnitude > 0x7f800000u, nan, code);
  } else {
    constexpr float kLess = Type == QuantType::MXFP8 ? 1.0f / 448 : 1.0f / 6;
    const U scale = bit_cast<U>(bit_cast<F>(magnitude) * kLess);
    const U exponent = scale >> 23, fraction = scale & 0x7fffffu;
    // Up to the next power of two; half of the least one counts as it.
    const U is_above = bits::select(exponent == 0u, bits::select(fraction > 0x400000u, one, zero),
                                    bits::select(fraction > 0u, one, zero));
    const U code = exponent + bits::select(exponent == 254u, zero, is_above);
    const U finite = bits::select(exponent == 255u, zero + 254u, code);
    return bits::select(magnitude > 0x7f800000u, nan, finite);
  }
}

// Returns the bits of 2^(127 - code).
template <class U>
PTO_INLINE U scaling_of(U code) {
  const U zero = code & 0u;
  const U power = bits::select(code == 254u, zero + 0x400000u, (254u - code) << 23);
  return bits::select(code == 255u, zero + 0x7fc00000u, power);
}

// Returns the larger magnitude: by the bits, which puts NaN above all, or without NaN. OCP e2m1
// does not count the fraction's lower half.
template <QuantType Type, QuantScaleAlg Alg, class V>
PTO_INLINE V larger(V most, V x) {
  const V size = lanes::abs(x);
  if constexpr (Type == QuantType::MXFP8) return lanes::max_or_second(size, most);
  using U = Vec<uint32_t, kCount<V>>;
  const U a = bit_cast<U>(most),
          b = bit_cast<U>(size) & (Alg == QuantScaleAlg::OCP ? 0xffff0000u : 0xffffffffu);
  return bit_cast<V>(lanes::select(a > b, a, b));
}

// Encodes n scaled numbers; `to` counts bytes.
template <QuantType Type, int N>
PTO_INLINE void encode(uint8_t* to, Vec<float, N> x, int n) {
  if constexpr (Type == QuantType::MXFP8) {
    const Vec<float, N> most = lanes::splat<Vec<float, N>>(448.f);
    x = lanes::max_or_second(-most, lanes::min_or_second(most, x));
    const auto codes = Codec<float8_e4m3_t>::narrow<N>(x);
    if (n >= N)
      lanes::store<N>(to, codes);
    else
      lanes::store_part<N>(to, codes, n);
  } else {
    auto pairs = lanes::pack_pairs<float4_e2m1x2_t, N>(x);
    if (n >= N) {
      lanes::store<N / 2>(to, pairs);
    } else {
      if (n % 2) pairs[n / 2] = uint8_t((pairs[n / 2] & 15) | (to[n / 2] & 0xf0));
      lanes::store_part<N / 2>(to, pairs, (n + 1) / 2);
    }
  }
}

// Rows of numbers at s, and rows of codes at d, `pitch` bytes apart.
template <class S>
struct QuantizedRows {
  const S* s;
  uint8_t* d;
  int stride, pitch, rows, columns;
};

// The places of a group's exponent, magnitude and scaling; exponents of a line are `pitch` apart.
template <class M, class Sc>
struct Groups {
  uint8_t* exponent;
  int pitch;
  M* magnitude;
  Sc* scaling;

  PTO_INLINE void set(int at, int exponent_at, uint32_t code, float most, float scale) const {
    exponent[exponent_at] = uint8_t(code);
    magnitude[at] = M(most);
    scaling[at] = Sc(scale);
  }
};

template <QuantType Type, QuantScaleAlg Alg, class S, class G>
inline void along_rows(const QuantizedRows<S>& t, const G& groups) {
  constexpr int N = kLanes<float>;
  using V = Vec<float, N>;
  int at = 0;
  for (int r = 0; r < t.rows; ++r)
    for (int c = 0; c < t.columns; c += kGroup, ++at) {
      const int n = t.columns - c < kGroup ? t.columns - c : kGroup;
      const S* s = t.s + r * t.stride + c;
      V x[kGroup / N], most = {};
      for (int i = 0; i < kGroup / N; ++i) {
        const int left = n - i * N;
        x[i] = left >= N ? lanes::load<N>(s + i * N)
                         : lanes::load_part<N>(s + i * N, left < 0 ? 0 : left);
        most = larger<Type, Alg>(most, x[i]);
      }
      float magnitude = 0;
      for (int i = 0; i < N; ++i)  // none is negative, so their bits are in order, NaN last
        magnitude =
            bit_cast<uint32_t>(most[i]) > bit_cast<uint32_t>(magnitude) ? most[i] : magnitude;
      const uint32_t code = shared_exponent<Type, Alg, float>(bit_cast<uint32_t>(magnitude));
      const float scale = bit_cast<float>(scaling_of(code));
      groups.set(at, r * groups.pitch + c / kGroup, code, magnitude, scale);
      uint8_t* d = t.d + r * t.pitch + (Type == QuantType::MXFP8 ? c : c / 2);
      for (int i = 0; i < kGroup / N; ++i)
        if (n > i * N)
          encode<Type, N>(d + (Type == QuantType::MXFP8 ? i * N : i * N / 2), x[i] * scale,
                          n - i * N);
    }
}

template <QuantType Type, QuantScaleAlg Alg, bool Interleave, class S, class G>
inline void along_columns(const QuantizedRows<S>& t, const G& groups) {
  constexpr int N = kLanes<float>;
  using V = Vec<float, N>;
  using U = Vec<uint32_t, N>;
  for (int g = 0; g * kGroup < t.rows; ++g)
    for (int c = 0; c < t.columns; c += N) {
      const int last = t.rows < (g + 1) * kGroup ? t.rows : (g + 1) * kGroup;
      const int n = t.columns - c < N ? t.columns - c : N;
      V most = {};
      for (int r = g * kGroup; r < last; ++r)
        most = larger<Type, Alg>(most, lanes::load_part<N>(t.s + r * t.stride + c, n));
      const U code = shared_exponent<Type, Alg, V>(bit_cast<U>(most));
      const V scale = bit_cast<V>(scaling_of(code));
      for (int i = 0; i < n; ++i) {
        const int at = g * t.columns + c + i;
        const int pair = (g / 2 * t.columns + c + i) * 2 + g % 2;
        groups.set(at, Interleave ? pair : g * groups.pitch + c + i, code[i], most[i], scale[i]);
      }
      for (int r = g * kGroup; r < last; ++r)
        encode<Type, N>(t.d + r * t.pitch + (Type == QuantType::MXFP8 ? c : c / 2),
                        lanes::load_part<N>(t.s + r * t.stride + c, n) * scale, n);
    }
}

}  // namespace quantize
PTO_NAMESPACE_END
