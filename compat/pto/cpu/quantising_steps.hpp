// SPDX-License-Identifier: Apache-2.0
// Quantising steps: the steps of TQUANT<MXFP8> and TQUANT<MXFP4_E2M1>, by the names of the public
// simulator. Sources that test the instruction compute their expectation with them.
//
//     constexpr QuantType kType = QuantType::MXFP8;
//     const float most = cpu_quant::ComputeMxGroupMax<1, kType, QuantScaleAlg::OCP>(tile, row, 0);
//     const uint8_t code = cpu_quant::ComputeMxSharedExponent<kType, QuantScaleAlg::OCP>(most);
//
// Thread safety: pure functions.
#pragma once
#include <pto/pto-inst.hpp>

#include <cmath>

namespace pto {
namespace cpu_quant {

inline uint32_t bits_of(float value) { return isa::bit_cast<uint32_t>(value); }

inline float Bf16BitsToFloat(uint16_t bits) { return float(bfloat16_t::FromRaw(bits)); }
inline uint16_t AbsBf16BitsFromFloat(float value) { return bits_of(value) >> 16 & 0x7fff; }

// Returns the largest magnitude of a group: 32 columns of row `line`; with Axis 0, 32 rows of a
// column.
template <int Axis, QuantType Type, QuantScaleAlg Alg, class S>
float ComputeMxGroupMax(const S& tile, int line, int group) {
  constexpr bool kShortens = Type == QuantType::MXFP4_E2M1 && Alg == QuantScaleAlg::OCP;
  float most = 0;
  for (int i = group * 32; i < group * 32 + 32; ++i) {
    const float value = float(Axis == 1 ? tile.GetElement(line, i) : tile.GetElement(i, line));
    const float size = kShortens ? Bf16BitsToFloat(AbsBf16BitsFromFloat(value)) : std::fabs(value);
    if (Type == QuantType::MXFP4_E2M1 && std::isnan(size)) return size;
    if (size > most) most = size;
  }
  return most;
}

template <QuantType Type, QuantScaleAlg Alg = QuantScaleAlg::OCP>
uint8_t ComputeMxSharedExponent(float most) {
  return uint8_t(isa::quantize::shared_exponent<Type, Alg, float>(bits_of(most)));
}
template <QuantType Type, QuantScaleAlg Alg>
float ComputeMxGroupScaling(float most, uint8_t code) {
  return code == 255 ? most : isa::bit_cast<float>(isa::quantize::scaling_of(uint32_t(code)));
}

// Multiplies an element by its scaling; the functions below return its code.
template <class T>
float ApplyE2M1ScaleForSource(T value, float scaling) {
  const float scaled = float(value) * scaling;
  return std::is_same_v<T, bfloat16_t> ? float(bfloat16_t(scaled)) : scaled;
}
template <QuantScaleAlg>
uint8_t EncodeE4M3Fn(float value) {
  const float inside = value > 448 ? 448.f : value < -448 ? -448.f : value;
  return std::isnan(value) ? 0x7f : float8_e4m3_t(inside).RawData();
}
inline uint8_t EncodeE2M1Magic(float value) { return float4_e2m1x2_t(value).RawData() & 15; }

}  // namespace cpu_quant
}  // namespace pto
