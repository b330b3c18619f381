// SPDX-License-Identifier: Apache-2.0
// int4b_t: a signed integer of 4 bits, one byte each.
//
//     int4b_t x = -3;
//     int i = x;
//     int4b_t(9);      // -7: wraps
//     int4b_t(2.5f);   // 2: nearest even
//
// TCVT clamps to [-8, 7] in every mode, as the public simulator does.
//
// Invariant: the byte holds the number sign-extended, whatever was stored.
// Thread safety: values.
#pragma once
#include "pto/isa/elementwise/convert.hpp"

PTO_NAMESPACE_BEGIN

struct int4b_t {
  static constexpr const char* kElementName = "int4";
  int8_t raw;

  int4b_t() = default;
  PTO_INLINE int4b_t(int value) : raw(int8_t(int32_t(uint32_t(value) << 28) >> 28)) {}
  PTO_INLINE int4b_t(float value) : int4b_t(int(__builtin_rintf(value))) {}
  PTO_INLINE operator int() const { return int32_t(uint32_t(raw) << 28) >> 28; }
  static PTO_INLINE int4b_t FromRaw(uint8_t raw) { return int4b_t(int(raw)); }
  PTO_INLINE uint8_t RawData() const { return uint8_t(raw); }
};

template <>
struct ElementTraits<int4b_t> : HeldAs<int8_t, int32_t> {};

template <>
struct Codec<int4b_t> {
  template <int N>
  static PTO_INLINE Vec<int32_t, N> widen(Vec<int8_t, N> raw) {
    return lanes::convert<int32_t>(raw) << 28 >> 28;
  }
  template <int N>
  static PTO_INLINE Vec<int8_t, N> narrow(Vec<int32_t, N> v) {
    return lanes::convert<int8_t>(v << 28 >> 28);
  }
};

template <>
inline constexpr bool kAlwaysClamps<int4b_t> = true;
template <>
inline constexpr int32_t kSmallestOf<int4b_t> = -8;
template <>
inline constexpr int32_t kLargestOf<int4b_t> = 7;

PTO_NAMESPACE_END
