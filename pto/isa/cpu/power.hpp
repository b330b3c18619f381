// SPDX-License-Identifier: Apache-2.0
// Power: pow on vectors of float; double and integers lane by lane.
//
//     auto y = pow(a, b);   // 0.6 ULP on floats, with C's special values; integers wrap
//
// Invariant: math_test.cpp checks the error, and that a lane's result does not depend on the other
// lanes. Lanes with 0, infinity or NaN in `a`, or infinity or NaN in `b`, take the C library.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/trigonometry.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Computes 2^(b log2(a)) for finite a > 0, in double, since b multiplies the logarithm's error by
// up to 150.
template <int N>
PTO_INLINE Vec<float, N> positive_power(Vec<double, N> a, Vec<double, N> b) {
  using D = Vec<double, N>;
  using I = Vec<int64_t, N>;
  constexpr double kWhole = 0x1.8p52;
  const I kHalfRoot = splat<I>(0x3fe6a09e667f3bcd);  // sqrt(1/2)
  const I shifted = bit_cast<I>(a) - kHalfRoot;
  // Converts the exponent by adding: it lands in the low bits of 1.5 2^52. Few targets have the
  // conversion.
  const I exponent = (shifted >> 52) + splat<I>(0x4338000000000000);
  const D e = bit_cast<D>(exponent) - kWhole;
  const D f = bit_cast<D>((shifted & splat<I>(0xfffffffffffff)) + kHalfRoot) - 1.0;
  const D p =
      horner(f, 1.442695040868709, -0.7213475208686064, 0.4808983613942205, -0.3606736748549669,
             0.2885372935590867, -0.24045316407839074, 0.206175356443354, -0.180300636768043,
             0.1587698613986918, -0.14315609000762233, 0.1447478142225411, -0.14284076696680614,
             0.0773730603211373);
  D y = b * fma(f, p, e);
  y = y > 160.0 ? splat<D>(160.0) : y < -160.0 ? splat<D>(-160.0) : y;
  const D whole = y + kWhole;
  const D g = y - (whole - kWhole);
  const D q =
      horner(g, 1.0000000005539473, 0.6931472057341169, 0.2402264689213752, 0.055503287816242565,
             0.009618488772414587, 0.0013399929977324745, 0.00015345864015140132);
  return convert<float>(bit_cast<D>(bit_cast<I>(q) + (bit_cast<I>(whole) << 52)));
}
template <class V>
PTO_INLINE V power_of_positive(V a, V b) {
  if constexpr (kCount<V> * 8 <= kVectorBytes) {
    return positive_power<kCount<V>>(convert<double>(a), convert<double>(b));
  } else {
    const Halves<V> x(a), y(b);
    return join(power_of_positive(x.low, y.low), power_of_positive(x.high, y.high));
  }
}

// C's pow, except that x^0 and 1^x are 1 for a signalling NaN too, as for every other number: the
// kind of NaN that a narrower one becomes depends on how it is widened.
PTO_INLINE float c_power(float a, float b) { return b == 0 || a == 1 ? 1.f : __builtin_powf(a, b); }
PTO_INLINE double c_power(double a, double b) {
  return b == 0 || a == 1 ? 1.0 : __builtin_pow(a, b);
}

template <class V>
PTO_INLINE V float_power(V a, V b) {
  using M = MaskOf<V>;
  const V size = abs(a), infinity = splat<V>(__builtin_inff());
  const M usual = (size > V{}) & (size < infinity) & (abs(b) < infinity);
  const V power = power_of_positive(size, b);
  // A negative base: NaN unless b is whole, and negative where it is odd.
  const V half = b * 0.5f;
  const M negative = a < V{}, whole = rint(b) == b, even = rint(half) == half;
  const M flip = negative & ~even & bit_cast<M>(sign_bits<V>());
  const V result = bit_cast<V>(bit_cast<M>(power) ^ flip);
  const V power_of_all = (negative & ~whole) != 0 ? splat<V>(__builtin_nanf("")) : result;
  const uint32_t good = pack_mask(usual);
  if (good == kEveryLane<V>) return power_of_all;
  return mend_lanes(
      power_of_all, good, [](float x, float y) { return c_power(x, y); }, a, b);
}

template <class E>
PTO_INLINE E pow_scalar(E a, E b) {
  if constexpr (kSame<E, double>)
    return c_power(a, b);
  else {
    if (b < 0) return a == 1 ? E(1) : a == E(-1) ? E((b & 1) ? -1 : 1) : E(0);
    uint64_t result = 1, base = uint64_t(a);
    for (uint64_t n = uint64_t(b); n; n >>= 1, base *= base)
      if (n & 1) result *= base;
    return E(result);
  }
}
template <class V>
PTO_INLINE V pow(V a, V b) {
  using E = LaneOf<V>;
  if constexpr (kIsF32<V>)
    return float_power(a, b);
  else
    return each_lane(a, b, [](E x, E y) { return pow_scalar<E>(x, y); });
}

}  // namespace lanes
PTO_NAMESPACE_END
