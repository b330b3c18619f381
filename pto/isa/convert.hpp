// SPDX-License-Identifier: Apache-2.0
// TCVT: one element type to another.
//
//     TCVT(d, s, RoundMode::CAST_RINT);                               // float to half
//     TCVT(d, s, RoundMode::CAST_TRUNC, SaturationMode::ON);          // float to int8, clamped
//
// Invariant: every pair honours its rounding mode. Without saturation an integer wraps and a
// float outside the integer's range is unspecified, as in C; with it both clamp and NaN is 0.
// mask32 becomes 1 or 0; towards mask32 everything but 0 is true.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Whole numbers near x: ties away from zero, ties to odd.
template <class V>
PTO_INLINE V round_away(V x) {
  const V whole = trunc(x), rest = abs(x - whole);
  const V one = bit_cast<V>(bit_cast<MaskOf<V>>(splat<V>(1)) |
                            (bit_cast<MaskOf<V>>(x) & bit_cast<MaskOf<V>>(sign_bits<V>())));
  return rest >= splat<V>(LaneOf<V>(0.5)) ? whole + one : whole;
}
template <class V>
PTO_INLINE V round_odd(V x) {
  const V down = floor(x), half = down * LaneOf<V>(0.5);
  const V odd = half == floor(half) ? down + splat<V>(1) : down;
  return x - down == splat<V>(LaneOf<V>(0.5)) ? odd : rint(x);
}

template <class V>
PTO_INLINE V round_whole(V x, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_RINT:
      return rint(x);
    case RoundMode::CAST_ROUND:
      return round_away(x);
    case RoundMode::CAST_FLOOR:
      return floor(x);
    case RoundMode::CAST_CEIL:
      return ceil(x);
    case RoundMode::CAST_ODD:
      return round_odd(x);
    default:
      return trunc(x);
  }
}

// The neighbour of the nearest T that `mode` asks for; x is exact in double.
template <class T>
T round_element(double x, RoundMode mode) {
  using Bits = typename UnsignedOf<typename IntOf<sizeof(T)>::type>::type;
  const T nearest = T(float(x));
  const double value = double(float(nearest)), size = __builtin_fabs(x);
  if (value == x || x != x || __builtin_isinf(x)) return nearest;
  const Bits bits = bit_cast<Bits>(nearest);
  const Bits inner = __builtin_fabs(value) > size ? Bits(bits - 1) : bits;  // next towards zero
  const double low = __builtin_fabs(double(float(bit_cast<T>(inner))));
  const double high = __builtin_fabs(double(float(bit_cast<T>(Bits(inner + 1)))));
  bool away = false;
  if (mode == RoundMode::CAST_FLOOR)
    away = x < 0;
  else if (mode == RoundMode::CAST_CEIL)
    away = x > 0;
  else if (mode == RoundMode::CAST_ROUND)
    away = size - low >= high - size;
  else if (mode == RoundMode::CAST_ODD)
    away = size - low == high - size ? !(inner & 1) : size - low > high - size;
  return bit_cast<T>(Bits(away ? inner + 1 : inner));
}

// The numbers that To holds, as From; the upper bound may round up to one beyond.
template <class To, class V>
PTO_INLINE auto saturated(V x) {
  using From = LaneOf<V>;
  constexpr To low = lowest<To>(), high = highest<To>();
  if constexpr (kIsFloat<From>) {
    const V zeroed = x != x ? V{} : x;
    const V inside =
        min_or_second(splat<V>(From(high)), max_or_second(splat<V>(From(low)), zeroed));
    const auto value = convert<To>(inside);
    using Result = Vec<To, kCount<V>>;
    using Mask = MaskOf<V>;
    const Mask above = zeroed >= splat<V>(From(high));
    return select(convert<LaneOf<MaskOf<Result>>>(above), splat<Result>(high), value);
  } else {
    // Compared in 64 bits: an unsigned 64-bit value counts by its sign bit.
    Vec<To, kCount<V>> result = convert<To>(x);
    for (int i = 0; i < kCount<V>; ++i) {
      const bool is_huge = !kIsSigned<From> && sizeof(From) == 8 && (uint64_t(x[i]) >> 63);
      const int64_t value = int64_t(x[i]);
      if (!kIsSigned<To> && sizeof(To) == 8)
        result[i] = !is_huge && value < 0 ? To(0) : To(x[i]);
      else if (is_huge || value > int64_t(high))
        result[i] = high;
      else if (value < int64_t(low))
        result[i] = low;
    }
    return result;
  }
}

// Compute<From> to Compute<To>; narrowing to T's storage follows in store().
template <class From, class To, class V>
PTO_INLINE Vec<Compute<To>, kCount<V>> convert_element(V v, RoundMode mode, SaturationMode sat) {
  using C = Compute<To>;
  constexpr int N = kCount<V>;
  if constexpr (kSame<To, mask32>) {
    if constexpr (kSame<From, mask32>)
      return v;
    else
      return convert<int32_t>(v != V{});
  } else if constexpr (kSame<From, mask32>) {
    if constexpr (kSame<C, float>)
      return bit_cast<Vec<float, N>>(v & 0x3f800000);
    else
      return convert<C>(v & 1);
  } else if constexpr (kIsFloat<From> && kIsFloat<To>) {
    const bool is_nearest = mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_NONE;
    auto result = convert<C>(v);
    if (sizeof(To) < sizeof(From) && !is_nearest)
      for (int i = 0; i < N; ++i) result[i] = C(float(round_element<To>(double(v[i]), mode)));
    return result;
  } else if constexpr (kIsFloat<From>) {
    const bool is_cast = mode == RoundMode::CAST_TRUNC || mode == RoundMode::CAST_NONE;
    const V whole = is_cast ? v : round_whole(v, mode);
    if (sat == SaturationMode::ON) return saturated<C>(whole);
    if constexpr (sizeof(C) < 4)
      return convert<C>(convert<int32_t>(whole));
    else
      return convert<C>(whole);
  } else if constexpr (kIsFloat<To>) {
    return convert<C>(v);
  } else {
    if (sat == SaturationMode::ON) return saturated<C>(v);
    return convert<C>(v);
  }
}

}  // namespace lanes

template <auto Precision = 0, class D, class S, class... X>
PTO_INLINE RecordEvent TCVT(D& d, const S& s, RoundMode mode = RoundMode::CAST_NONE,
                            SaturationMode sat = SaturationMode::OFF, const X&...) {
  static_assert(check_elementwise<D, S>());
  static_assert(check_trailing<X...>());
  map(
      [mode, sat](auto v) {
        return lanes::convert_element<typename S::DType, typename D::DType>(v, mode, sat);
      },
      d, s);
  return {};
}

// With a temporary tile, which nothing here needs.
template <auto Precision = 0, class D, class S, class Tmp, class... X,
          typename Enable<kIsTile<Tmp>>::type = 0>
PTO_INLINE RecordEvent TCVT(D& d, const S& s, const Tmp&, RoundMode mode, const X&... rest) {
  return TCVT(d, s, mode, rest...);
}

PTO_NAMESPACE_END
