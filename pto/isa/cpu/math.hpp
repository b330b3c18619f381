// SPDX-License-Identifier: Apache-2.0
// Elementary functions on vectors of float; double goes through the C library lane by lane.
//
//     auto y = exp(x);     // 1 ULP over all floats: subnormal results, infinities, NaN
//
// Invariant: see math_test.cpp for the error and the special values of each function.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/leaves.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

template <class V>
PTO_INLINE V horner(V, LaneOf<V> c0) {
  return splat<V>(c0);
}
// c0 + x (c1 + x (c2 + ...))
template <class V, class... C>
PTO_INLINE V horner(V x, LaneOf<V> c0, C... c) {
  return fma(horner(x, LaneOf<V>(c)...), x, c0);
}

// 1/ln 2, and ln 2 in two parts, the first with trailing zeros so that n * kLn2High is exact.
constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

// 2^(i/16).
constexpr float kRootsOfTwo[16] = {
    1.f,          1.04427378f,  1.090507733f, 1.138788635f, 1.189207115f, 1.241857812f,
    1.296839555f, 1.354255547f, 1.414213562f, 1.476826146f, 1.542210825f, 1.610490332f,
    1.681792831f, 1.75625216f,  1.834008086f, 1.915206561f};

#if defined(PTO_TARGET_AVX512)
// x = n ln 2 + r with n a multiple of 1/16: e^x = 2^floor(n) * table[16 (n - floor(n))] * e^r.
// vscalefps takes floor(n) by itself and is right at infinities, NaN and subnormals.
PTO_INLINE Vec<float, 16> exp_by_table(Vec<float, 16> x) {
  using V = Vec<float, 16>;
  const V roots = bit_cast<V>(kRootsOfTwo);
  const V shifted = fma(x, splat<V>(kLog2E), 786432.f);  // 1.5 * 2^19: four fraction bits survive
  const V n = shifted - 786432.f;
  V r = fma(n, splat<V>(-kLn2High), x);
  r = fma(n, splat<V>(-kLn2Low), r);
  V root, result;
  asm("vpermps %2, %1, %0" : "=v"(root) : "v"(shifted), "v"(roots));
  V q = fma(splat<V>(0.16666814782106026f), r, 0.5000161788723319f);
  q = fma(q, r * r, r);
  q = fma(q, root, root);
  asm("vscalefps %2, %1, %0" : "=v"(result) : "v"(q), "v"(n));
  return result;
}
#endif

// x = n ln 2 + r, |r| <= ln 2 / 2, degree 6; 2^n in two factors so that subnormal results round once.
template <class V>
PTO_INLINE V exp_by_polynomial(V x) {
  using I = Vec<int32_t, kCount<V>>;
  x = max_or_second(splat<V>(-104.f), x);
  x = min_or_second(splat<V>(89.f), x);
  const V shifted = fma(x, splat<V>(kLog2E), 12582912.f);  // 1.5 * 2^23: rounds to an integer
  const V n = shifted - 12582912.f;
  V r = fma(n, splat<V>(-kLn2High), x);
  r = fma(n, splat<V>(-kLn2Low), r);
  V q = horner(r, 0.4999999345147324f, 0.16666520687559444f, 0.04166838740838955f,
               0.008368710035650198f, 0.001381461101064601f);
  q = fma(q, r * r, r) + 1.f;
  const I exponent = bit_cast<I>(shifted) - 0x4b400000;
  const I half = exponent >> 1;
  const V first = bit_cast<V>((half + 127) << 23);
  const V second = bit_cast<V>((exponent - half + 127) << 23);
  return q * first * second;
}

template <class V>
PTO_INLINE V exp(V x) {
  if constexpr (kIsF64<V>) {
    return each_lane(x, [](double a) { return __builtin_exp(a); });
  } else {
#if defined(PTO_TARGET_AVX512)
    if constexpr (sizeof(V) == 64) return exp_by_table(x);
    else
#endif
      return exp_by_polynomial(x);
  }
}

#define PTO_BY_LIBRARY(name)                                               \
  template <class V>                                                       \
  PTO_INLINE V name(V x) {                                                 \
    if constexpr (kIsF64<V>)                                               \
      return each_lane(x, [](double a) { return __builtin_##name(a); });   \
    else return each_lane(x, [](float a) { return __builtin_##name##f(a); }); \
  }
PTO_BY_LIBRARY(log)
PTO_BY_LIBRARY(sin)
PTO_BY_LIBRARY(cos)
PTO_BY_LIBRARY(tanh)
PTO_BY_LIBRARY(erf)
#undef PTO_BY_LIBRARY

template <class V>
PTO_INLINE V sigmoid(V x) {
  return splat<V>(1) / (splat<V>(1) + exp(-x));
}

// C's fmod and % (a % 0 is 0).
template <class E>
PTO_INLINE E fmod_scalar(E a, E b) {
  if constexpr (kSame<E, float>) return __builtin_fmodf(a, b);
  else if constexpr (kSame<E, double>) return __builtin_fmod(a, b);
  else if constexpr (kIsSigned<E>) return b == 0 || b == E(-1) ? E(0) : E(a % b);
  else return b == 0 ? E(0) : E(a % b);
}
// The remainder with the sign of b.
template <class E>
PTO_INLINE E remainder_scalar(E a, E b) {
  const E r = fmod_scalar<E>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? E(r + b) : r;
}
template <class E>
PTO_INLINE E pow_scalar(E a, E b) {
  if constexpr (kSame<E, float>) return __builtin_powf(a, b);
  else if constexpr (kSame<E, double>) return __builtin_pow(a, b);
  else {
    if (b < 0) return a == 1 ? E(1) : a == E(-1) ? E((b & 1) ? -1 : 1) : E(0);
    uint64_t result = 1, base = uint64_t(a);
    for (uint64_t n = uint64_t(b); n; n >>= 1, base *= base)
      if (n & 1) result *= base;
    return E(result);
  }
}
#define PTO_BY_LANE(name)                                               \
  template <class V>                                                    \
  PTO_INLINE V name(V a, V b) {                                         \
    using E = LaneOf<V>;                                                \
    return each_lane(a, b, [](E x, E y) { return name##_scalar<E>(x, y); }); \
  }
PTO_BY_LANE(fmod)
PTO_BY_LANE(remainder)
PTO_BY_LANE(pow)
#undef PTO_BY_LANE

}  // namespace lanes
PTO_NAMESPACE_END
