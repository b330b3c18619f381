// SPDX-License-Identifier: Apache-2.0
// Trigonometry: sine and cosine on vectors of float and double.
//
//     auto y = sin(x);     // 1.5 ULP for every float; NaN for infinities and NaN
//     auto z = sin(d);     // 1 ULP for every double
//
// Invariant: math_test.cpp and doubles_test.cpp check the error, and that a lane's result does not
// depend on the other lanes. Lanes of 2^20 or more (doubles with fused multiply-add: of 2^30),
// infinities and NaN take the C library.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/math.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// The rest of an angle after whole quarters of a turn, within pi / 4 and a little; the excess of
// `rest`; and the number of quarters modulo 2^22.
template <int N>
struct Quarter {
  Vec<float, N> rest, excess;
  Vec<int32_t, N> count;
};

// Reduces in double, with pi / 2 in three parts whose products with less than 2^20 quarters are
// exact.
template <int N>
PTO_INLINE Quarter<N> reduce_to_quarter(Vec<double, N> x) {
  using D = Vec<double, N>;
  const D shifted = x * 0.63661977236758134 + kWhole;
  const D n = shifted - kWhole;
  D exact = fma(n, splat<D>(-0x1.921fb544p+0), x);
  exact = fma(n, splat<D>(-0x1.0b4611a6p-34), exact);
  exact = fma(n, splat<D>(-0x1.3198a2e037073p-69), exact);
  const auto rest = convert<float>(exact);
  return {rest, convert<float>(convert<double>(rest) - exact),
          convert<int32_t>(bit_cast<Vec<int64_t, N>>(shifted))};
}

// Reduces with fused multiply-add and pi / 2 = C1 + C2 + C3, each a float. x - n C1 is exact, since
// it is a multiple of 2^-24 below 1. It is a multiple of the last bit of n C2 too, so the loss of
// their difference is known exactly.
template <class V>
PTO_INLINE Quarter<kCount<V>> reduce_to_quarter_fused(V x) {
  const V c2 = splat<V>(0x1.4442d2p-24f), c3 = splat<V>(-0x1.ee59dap-50f);
  const V shifted = fma(x, splat<V>(0.636619772f), 12582912.f);  // 1.5 * 2^23
  const V n = shifted - 12582912.f;
  const V first = fma(n, splat<V>(-0x1.921fb4p+0f), x);
  V second = n * c2;
  asm("" : "+v"(second));  // not to be fused
  const V rest = first - second;
  return {rest, fma(n, c3, fma(n, c2, rest - first)), bit_cast<Vec<int32_t, kCount<V>>>(shifted)};
}

template <class V>
PTO_INLINE Quarter<kCount<V>> quarter_of(V x) {
  if constexpr (kIsNative<V>) {
    return reduce_to_quarter_fused(x);
  } else if constexpr (kCount<V> * 8 <= kVectorBytes) {
    return reduce_to_quarter<kCount<V>>(convert<double>(x));
  } else {
    const Halves<V> half(x);
    const auto low = quarter_of(half.low), high = quarter_of(half.high);
    return {join(low.rest, high.rest), join(low.excess, high.excess), join(low.count, high.count)};
  }
}

// Computes sin(x + Quarters pi / 2) for |x| < 2^20. sin r = r - r z S(z), cos r = 1 - z C(z), z =
// r^2: one polynomial with coefficients by the quarter.
template <int Quarters, class V>
PTO_INLINE V sine_near(V x) {
  using I = Vec<int32_t, kCount<V>>;
  const auto quarter = quarter_of(x);
  const V r = quarter.rest, z = r * r;
  const I count = quarter.count + Quarters;
  const auto odd = (count & 1) != 0;
  const V base = odd ? splat<V>(1) : r;
  V p = odd ? splat<V>(-2.4334134650416672e-05f) : splat<V>(-2.7139726626046468e-06f);
  p = fma(p, z, odd ? splat<V>(0.0013886125525459647f) : splat<V>(0.00019838858861476183f));
  p = fma(p, z, odd ? splat<V>(-0.04166660085320473f) : splat<V>(-0.008333328180015087f));
  p = fma(p, z, odd ? splat<V>(0.5f) : splat<V>(0.1666666716337204f));
  p = fma(p, z * base, quarter.excess * (odd ? -r : splat<V>(1)));
  // base - p of -0 is -0.
  return bit_cast<V>(bit_cast<I>(base - p) ^ ((count & 2) << 30));
}

// Calls f for the lanes whose bit in `good` is 0, so that no lane's result depends on its
// neighbours.
template <class V, class F, class... W>
__attribute__((noinline, cold)) V mend_lanes(V result, uint32_t good, F f, W... of) {
  for (int i = 0; i < kCount<V>; ++i)
    if (!(good >> i & 1)) result[i] = f(of[i]...);
  return result;
}
template <class V, class F>
PTO_INLINE V far_by_library(V result, V x, LaneOf<V> far, F library) {
  const uint32_t near = pack_mask(abs(x) < splat<V>(far));
  return near == kEveryLane<V> ? result : mend_lanes(result, near, library, x);
}

// The rest of an angle in a whole register of doubles, as for Quarter.
template <class V>
struct QuarterOfDoubles {
  V rest, excess;
  MaskOf<V> count;
};

// Up to 2^30 the first difference is exact, and what the others lose is in the excess. Without
// fused instructions pi / 2 has four parts: up to 2^20 the products with the first three are exact.
template <class V>
PTO_INLINE QuarterOfDoubles<V> quarter_of_doubles(V x) {
  const V shifted = fma(x, splat<V>(0x1.45f306dc9c883p-1), kWhole), n = shifted - kWhole;
  const auto count = bit_cast<MaskOf<V>>(shifted);
  if constexpr (kHasFma) {
    const V first = fma(n, splat<V>(-0x1.921fb54442d18p+0), x);
    const auto product = exact_product(n, splat<V>(0x1.1a62633145c07p-54));
    const auto rest = exact_sum_of_any(first, -product.high);
    return {rest.high, fma(n, splat<V>(-0x1.f1976b7ed8fbcp-110), product.low - rest.low), count};
  } else {
    const V first = x - n * 0x1.921fb544p+0;
    const auto second = exact_sum_of_any(first, n * -0x1.0b4611a6p-34);
    const auto rest = exact_sum_of_any(second.high, n * -0x1.3198a2ep-69);
    return {rest.high, n * 0x1.b839a252049c1p-104 - (second.low + rest.low), count};
  }
}

// Computes sin(x + Quarters pi / 2): sin r = r - r z S(z), cos r = (1 - z / 2) - z^2 C(z), z = r^2.
template <int Quarters, class V>
PTO_INLINE V sine_of_doubles(V x) {
  const auto quarter = quarter_of_doubles(x);
  const auto count = quarter.count + Quarters;
  const auto odd = (count & 1) != 0;
  const V r = quarter.rest, z = r * r, square = z * z;
  const auto by_quarter = [&](double cosine, double sine) {
    return odd ? splat<V>(cosine) : splat<V>(sine);
  };
  V even = fma(by_quarter(-2.087589773868284e-09, 2.50507345710695e-08), square,
               by_quarter(-2.4801587294628004e-05, 0.00019841269830144393));
  even = fma(even, square, by_quarter(-0.04166666666666665, 0.1666666666666664));
  V p = fma(by_quarter(1.1367981880468928e-11, -1.5894710581635063e-10), square,
            by_quarter(2.7557315738613277e-07, -2.755731365185318e-06));
  p = fma(p, square, by_quarter(0.001388888888888284, -0.008333333333323662));
  p = fma(p, z, even);
  // `lost` is the error of the difference. With these signs the result of -0 is -0.
  const V half = z * 0.5, head = odd ? splat<V>(1) : r, next = odd ? half : quarter.excess;
  const V all = head - next, lost = (all - head) + next;
  const V low = lost - quarter.excess * (odd ? r : half);
  const V result = all - fma(p, z * (odd ? z : r), low);
  return bit_cast<V>(bit_cast<MaskOf<V>>(result) ^ ((count & 2) << 62));
}

template <int Quarters, class V, class F>
PTO_INLINE V sine(V x, F library) {
  if constexpr (kIsF64<V>) {
    constexpr double kFar = kHasFma ? 0x1p30 : 0x1p20;
    return in_registers(
        [&](auto v) { return far_by_library(sine_of_doubles<Quarters>(v), v, kFar, library); }, x);
  } else {
    return far_by_library(sine_near<Quarters>(x), x, 0x1p20f, library);
  }
}

template <class V>
PTO_INLINE V sin(V x) {
  if constexpr (kIsF64<V>)
    return sine<0>(x, [](double a) { return __builtin_sin(a); });
  else
    return sine<0>(x, [](float a) { return __builtin_sinf(a); });
}
template <class V>
PTO_INLINE V cos(V x) {
  if constexpr (kIsF64<V>)
    return sine<1>(x, [](double a) { return __builtin_cos(a); });
  else
    return sine<1>(x, [](float a) { return __builtin_cosf(a); });
}

}  // namespace lanes
PTO_NAMESPACE_END
