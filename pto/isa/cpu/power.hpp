// SPDX-License-Identifier: Apache-2.0
// Power: pow on vectors of float and double; lane by lane on integers, and on doubles of targets
// without fused multiply-add.
//
//     auto y = pow(a, b);   // 0.6 ULP on floats, 1 on doubles, C's special values; integers wrap
//
// Invariant: math_test.cpp and doubles_test.cpp check the error, and that a lane's result does not
// depend on the other lanes. Lanes with 0, infinity or NaN in `a`, or infinity or NaN in `b`, take
// the C library.
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

// Computes high + low + a b, where a b is at most `high`.
template <class V>
PTO_INLINE Pair<V> add_product(double high, double low, Pair<V> a, Pair<V> b) {
  const auto product = exact_product(a.high, b.high);
  const V rest = fma(a.high, b.low, fma(a.low, b.high, product.low));
  const auto sum = exact_sum(splat<V>(high), product.high);
  return {sum.high, sum.low + (rest + low)};
}

// Computes log2(a) for finite a > 0 in a whole register, to 2^-66 of it, since b multiplies its
// error by up to 1100. With s = f / (2 + f), f the mantissa - 1, and c = 2 / ln 2, the mantissa's
// logarithm is s (c + z (c / 3 + z (c / 5 + z P(z)))), z = s^2; only P has one part.
template <class V>
PTO_INLINE Pair<V> log2_of_doubles(V a) {
  const auto part = split_of_positive(a);
  const V f = part.mantissa - 1.0;
  const auto ratio = quotient_by_pair(f, exact_sum(splat<V>(2), f));
  const Pair<V> s = {ratio.first, ratio.low()};
  auto z = exact_product(s.high, s.high);
  z.low = fma(s.high * 2.0, s.low, z.low);
  const V p = horner_in_two(z.high, z.high * z.high, 0.41219858311113194, 0.32059889797584457,
                            0.26230818908842507, 0.22195310669747403, 0.19235754572129204,
                            0.169806764524198, 0.14993475793081812, 0.16241831459248635);
  auto sum = add_product(0x1.2776c50ef9bfep-1, 0x1.e4b29ccc535d4p-55, Pair<V>{p, V{}}, z);
  sum = add_product(0x1.ec709dc3a03fdp-1, 0x1.d27f05548af0cp-55, sum, z);
  sum = add_product(0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55, sum, z);
  const auto log = exact_product(s.high, sum.high), all = exact_sum(part.exponent, log.high);
  return {all.high, all.low + fma(s.high, sum.low, fma(s.low, sum.high, log.low))};
}

// Computes 2^(b log2(a)) for finite a > 0 and finite b, in a whole register.
template <class V>
PTO_INLINE V positive_power_of_doubles(V a, V b) {
  const V ln2 = splat<V>(0x1.62e42fefa39efp-1);
  // A larger exponent has the same result, and its product would not be finite.
  b = min_or_second(splat<V>(0x1p70), max_or_second(splat<V>(-0x1p70), b));
  const auto log = log2_of_doubles(a), y = exact_product(b, log.high);
  const V shifted = y.high + kWhole, g = y.high - (shifted - kWhole);
  const auto product = exact_product(g, ln2);
  const V low = fma(fma(b, log.low, y.low), ln2, product.low);
  const auto rest = exact_sum(product.high, fma(g, splat<V>(0x1.abc9e3b39803fp-56), low));
  const V power = times_power_of_two(expm1_of_rest(rest.high, rest.low) + 1.0, shifted);
  const V far = y.high < V{} ? V{} : splat<V>(__builtin_inf());
  return abs(y.high) < splat<V>(1100) ? power : far;
}

template <class V>
PTO_INLINE V power_of_positive(V a, V b) {
  if constexpr (kIsF64<V>) {
    return positive_power_of_doubles(a, b);
  } else if constexpr (kCount<V> * 8 <= kVectorBytes) {
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
  using E = LaneOf<V>;
  const V size = abs(a), infinity = splat<V>(E(__builtin_inf()));
  const M usual = (size > V{}) & (size < infinity) & (abs(b) < infinity);
  const V power = power_of_positive(size, b);
  // A negative base: NaN unless b is whole, and negative where it is odd.
  const V half = b * E(0.5);
  const M negative = a < V{}, whole = rint(b) == b, even = rint(half) == half;
  const M flip = negative & ~even & bit_cast<M>(sign_bits<V>());
  const V result = bit_cast<V>(bit_cast<M>(power) ^ flip);
  const V power_of_all = (negative & ~whole) != 0 ? splat<V>(E(__builtin_nan(""))) : result;
  const uint32_t good = pack_mask(usual);
  if (good == kEveryLane<V>) return power_of_all;
  return mend_lanes(
      power_of_all, good, [](E x, E y) { return c_power(x, y); }, a, b);
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
  else if constexpr (kIsF64<V> && kHasFma)  // without it, half as fast as the C library
    return in_registers([](auto x, auto y) { return float_power(x, y); }, a, b);
  else
    return each_lane(a, b, [](E x, E y) { return pow_scalar<E>(x, y); });
}

}  // namespace lanes
PTO_NAMESPACE_END
