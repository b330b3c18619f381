// SPDX-License-Identifier: Apache-2.0
// Sine and cosine on vectors; double goes through the C library lane by lane.
//
//     auto y = sin(x);     // 1.5 ULP for every float; NaN for infinities and NaN
//
// Invariant: math_test.cpp checks the error, and that a lane's result does not depend on the other
// lanes. Lanes of 2^20 or more, infinities and NaN take the C library.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/bits.hpp"
#include "pto/isa/cpu/math.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// Two halves as one vector.
template <class V>
PTO_INLINE Vec<LaneOf<V>, 2 * kCount<V>> join(V low, V high) {
  struct Pair {
    V low, high;
  };
  return bit_cast<Vec<LaneOf<V>, 2 * kCount<V>>>(Pair{low, high});
}

// What is left of an angle after whole quarters of a turn, within pi / 4, and their number.
template <int N>
struct Quarter {
  Vec<float, N> rest;
  Vec<int32_t, N> count;
};

// In double, with pi / 2 in three parts whose products with less than 2^20 quarters are exact.
template <int N>
PTO_INLINE Quarter<N> reduce_to_quarter(Vec<double, N> x) {
  using D = Vec<double, N>;
  constexpr double kWhole = 0x1.8p52;  // adding it rounds to a whole number, in the low bits
  const D shifted = x * 0.63661977236758134 + kWhole;
  const D n = shifted - kWhole;
  D rest = fma(n, splat<D>(-0x1.921fb544p+0), x);
  rest = fma(n, splat<D>(-0x1.0b4611a6p-34), rest);
  rest = fma(n, splat<D>(-0x1.3198a2e037073p-69), rest);
  return {convert<float>(rest), convert<int32_t>(bit_cast<Vec<int64_t, N>>(shifted))};
}
template <class V>
PTO_INLINE Quarter<kCount<V>> quarter_of(V x) {
  if constexpr (kCount<V> * 8 <= kVectorBytes) {
    return reduce_to_quarter<kCount<V>>(convert<double>(x));
  } else {
    const Halves<V> half(x);
    const auto low = quarter_of(half.low), high = quarter_of(half.high);
    return {join(low.rest, high.rest), join(low.count, high.count)};
  }
}

// sin(x + Quarters pi / 2) for |x| < 2^20.
template <int Quarters, class V>
PTO_INLINE V sine_near(V x) {
  using I = Vec<int32_t, kCount<V>>;
  const auto quarter = quarter_of(x);
  const V r = quarter.rest, z = r * r;
  const I count = quarter.count + Quarters;
  const V s = horner(z, -0.16666654291730734f, 0.00833213457803097f, -0.0001951117263282707f);
  const V c = horner(z, 0.04166664591860357f, -0.0013887316770614098f, 2.4432254015636378e-05f);
  const V sine = fma(r * z, s, r);
  const V cosine = fma(z * z, c, fma(z, splat<V>(-0.5f), 1.f));
  const V either = (count & 1) == 0 ? sine : cosine;
  const V result = bit_cast<V>(bit_cast<I>(either) ^ ((count & 2) << 30));
  if constexpr (Quarters == 0) return x == V{} ? x : result;  // keeps -0
  return result;
}

// Replaces the lanes whose bit in `good` is 0 by f of them, so that no lane's result depends on its
// neighbours.
template <class V, class F, class... W>
__attribute__((noinline, cold)) V mend_lanes(V result, uint32_t good, F f, W... of) {
  for (int i = 0; i < kCount<V>; ++i)
    if (!(good >> i & 1)) result[i] = f(of[i]...);
  return result;
}
template <class V>
constexpr uint32_t kEveryLane = uint32_t((uint64_t(1) << kCount<V>)-1);

template <int Quarters, class V, class F>
PTO_INLINE V sine(V x, F library) {
  const V result = sine_near<Quarters>(x);
  const uint32_t near = pack_mask(abs(x) < splat<V>(0x1p20f));
  return near == kEveryLane<V> ? result : mend_lanes(result, near, library, x);
}

template <class V>
PTO_INLINE V sin(V x) {
  if constexpr (kIsF64<V>)
    return each_lane(x, [](double a) { return __builtin_sin(a); });
  else
    return sine<0>(x, [](float a) { return __builtin_sinf(a); });
}
template <class V>
PTO_INLINE V cos(V x) {
  if constexpr (kIsF64<V>)
    return each_lane(x, [](double a) { return __builtin_cos(a); });
  else
    return sine<1>(x, [](float a) { return __builtin_cosf(a); });
}

}  // namespace lanes
PTO_NAMESPACE_END
