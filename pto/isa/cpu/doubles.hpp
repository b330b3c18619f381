// SPDX-License-Identifier: Apache-2.0
// Doubles: exp, tanh, sigmoid and log on whole registers of doubles; math.hpp calls them.
//
//     auto y = in_registers([](auto v) { return exp_of_doubles(v); }, x);
//
// Invariant: doubles_test.cpp checks the error that math.hpp states, subnormals, infinities and
// NaN. Without fused multiply-add the errors hold, too.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/polynomial.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Adding it rounds to a whole number, which then lies in the low bits.
constexpr double kWhole = 0x1.8p52;

// A multiple n of ln 2 and the rest of a number, up to ln 2 / 2 and a little; `lost` is what the
// rest's last bit left out. n is `shifted` - kWhole.
template <class V>
struct ExpRest {
  V shifted, rest, lost;
};

// ln 2 in two parts, the first with trailing zeros so that its products with n are exact.
template <class V>
PTO_INLINE ExpRest<V> rest_of_exp(V x) {
  const V high = splat<V>(-0x1.62e42fefa38p-1), low = splat<V>(-0x1.ef35793c7673p-45);
  const V shifted = fma(x, splat<V>(0x1.71547652b82fep+0), kWhole), n = shifted - kWhole;
  const V first = fma(n, high, x), rest = fma(n, low, first);
  return {shifted, rest, fma(n, low, first - rest)};
}

// Computes e^(r + lost) - 1: degree 12, an error of 2^-62 of e^r.
template <class V>
PTO_INLINE V expm1_of_rest(V r, V lost) {
  const V square = r * r;
  const V q = horner_in_two(r, square, 0.5, 0.16666666666666674, 0.04166666666666667,
                            0.008333333333322207, 0.0013888888888881038, 0.00019841269886594978,
                            2.4801587333716003e-05, 2.7557242332178415e-06, 2.7557264552270825e-07,
                            2.5110051592735936e-08, 2.0918055747169804e-09);
  return fma(q, square, lost) + r;
}

// Computes q 2^n with one rounding, -1078 < n < 1026, where no instruction does in two factors.
template <class V>
PTO_INLINE V times_power_of_two(V q, V shifted) {
#if defined(PTO_TARGET_AVX512)
  V result;
  asm("vscalefpd %2, %1, %0" : "=v"(result) : "v"(q), "v"(shifted - kWhole));
  return result;
#else
  using U = Vec<uint64_t, kCount<V>>;
  const U n = bit_cast<U>(shifted) - (0x4338000000000000 - 2048), half = n >> 1;
  return q * bit_cast<V>((half - 1) << 52) * bit_cast<V>((n - half - 1) << 52);
#endif
}

// Computes e^x for x from -746 to 710, or NaN.
template <class V>
PTO_INLINE V exp_within_range(V x) {
  const auto part = rest_of_exp(x);
  return times_power_of_two(expm1_of_rest(part.rest, part.lost) + 1.0, part.shifted);
}
template <class V>
PTO_INLINE V exp_of_doubles(V x) {
  x = max_or_second(splat<V>(-746), x);  // NaN stays
  return exp_within_range(min_or_second(splat<V>(710), x));
}

// With u = e^(-2|x|) - 1, exact to the last places next to 0, tanh |x| is -u / (2 + u).
template <class V>
PTO_INLINE V tanh_of_doubles(V x) {
  using U = Vec<uint64_t, kCount<V>>;
  const auto part = rest_of_exp(max_or_second(splat<V>(-40), -2.0 * abs(x)));
  const V power = bit_cast<V>((bit_cast<U>(part.shifted) + 1023) << 52);
  const V u = fma(expm1_of_rest(part.rest, part.lost), power, power - 1.0);
  const V result = quotient_by_pair(-u, exact_sum(splat<V>(2), u)).rounded_once();
  return with_sign_of(abs(result), x);
}

template <class V>
PTO_INLINE V sigmoid_of_doubles(V x) {
  const V one = splat<V>(1), down = with_sign_of(x, sign_bits<V>());
  const V e = exp_within_range(max_or_second(splat<V>(-746), down));
  return quotient_by_pair(x < V{} ? e : one, exact_sum(one, e)).rounded_once();
}

// x = 2^exponent mantissa with the mantissa in [3/4, 3/2), for finite x > 0.
template <class V>
struct Split {
  V exponent, mantissa;
};
template <class V>
PTO_INLINE Split<V> split_of_positive(V x) {
#if defined(PTO_TARGET_AVX512)
  V mantissa, all, past;
  asm("vgetmantpd $15, %1, %0" : "=v"(mantissa) : "v"(x));  // NaN below 0
  asm("vgetexppd %1, %0" : "=v"(all) : "v"(x));
  asm("vgetexppd %1, %0" : "=v"(past) : "v"(mantissa));
  return {all - past, mantissa};
#else
  using U = Vec<uint64_t, kCount<V>>;
  constexpr uint64_t kLeast = 0x3fe8000000000000;  // 3/4
  const auto is_small = x < splat<V>(0x1p-1022);
  // The exponent has its bias; as the last bits of 2^52 it becomes a number.
  const U bits = bit_cast<U>(is_small ? x * 0x1p54 : x) + (0x3ff0000000000000 - kLeast);
  const V exponent = bit_cast<V>((bits >> 52) | 0x4330000000000000);
  return {exponent - (is_small ? splat<V>(0x1p52 + 1023 + 54) : splat<V>(0x1p52 + 1023)),
          bit_cast<V>((bits & 0xfffffffffffff) + kLeast)};
#endif
}

// The logarithm of the mantissa by a polynomial of degree 21 in f = mantissa - 1.
template <class V>
PTO_INLINE V log_of_doubles(V x) {
  const auto part = split_of_positive(x);
  const V f = part.mantissa - 1.0, square = f * f;
  const V p = horner_in_two(
      f, square, 0.3333333333333375, -0.2500000000001058, 0.19999999999850204, -0.1666666666379966,
      0.14285714299935387, -0.12500000290661714, 0.11111110772649183, -0.09999985542237858,
      0.09090893021080726, -0.08333704399196688, 0.07693387212783145, -0.0713858196066418,
      0.06643361033482771, -0.06249853615973145, 0.06083047270254315, -0.05968083274129218,
      0.0506952343628696, -0.02938843643398281, 0.00809075429254233);
  // The first part of ln 2 times the exponent is exact.
  const auto sum = exact_sum(part.exponent * 0x1.62e42fefa38p-1, f);
  V low = fma(part.exponent, splat<V>(0x1.ef35793c7673p-45), square * (p * f));
  low = fma(f * -0.5, f, low);
  const V result = sum.high + (sum.low + low), infinity = splat<V>(__builtin_inf());
#if defined(PTO_TARGET_AVX512)  // whose parts of 0, infinities, NaN and negative numbers sum to it
  return abs(part.exponent) < infinity ? result : part.exponent + part.mantissa;
#else
  const V special = x < V{} ? splat<V>(__builtin_nan("")) : x == V{} ? -infinity : x;
  return ((x > V{}) & (x < infinity)) ? result : special;
#endif
}

}  // namespace lanes
PTO_NAMESPACE_END
