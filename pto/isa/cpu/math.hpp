// SPDX-License-Identifier: Apache-2.0
// Math: elementary functions on vectors of float and double.
//
//     auto y = exp(x);     // 1 ULP; log 1.1, tanh and rsqrt 1.5, sigmoid 3.1 (below 2^-126: 0)
//     auto z = exp(d);     // doubles: exp and log 1 ULP, tanh 2, sigmoid and rsqrt 1.5
//
// Invariant: math_test.cpp checks the error, subnormals, infinities and NaN: every float in the
// deep run, one of 8191 in the quick one; doubles_test.cpp those of doubles.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/bits.hpp"
#include "pto/isa/cpu/doubles.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// 1/ln 2, and ln 2 in two parts, the first with trailing zeros so that n * kLn2High is exact.
constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

// 2^(i/16).
constexpr float kRootsOfTwo[16] = {1.f,          1.04427378f,  1.090507733f, 1.138788635f,
                                   1.189207115f, 1.241857812f, 1.296839555f, 1.354255547f,
                                   1.414213562f, 1.476826146f, 1.542210825f, 1.610490332f,
                                   1.681792831f, 1.75625216f,  1.834008086f, 1.915206561f};

#if defined(PTO_TARGET_AVX512)
// Computes e^x, or e^-x with Sign = -1, where no instruction negates. With n the multiple of 1/16
// next to x / ln 2 and r = x - n ln 2 it is 2^floor(n) * table[16 (n - floor(n))] * e^r; vscalefps
// takes floor(n) by itself and is right at infinities, NaN and subnormals.
template <int Sign>
PTO_INLINE Vec<float, 16> exp_by_table(Vec<float, 16> x) {
  using V = Vec<float, 16>;
  const V roots = bit_cast<V>(kRootsOfTwo);
  // 1.5 * 2^19: four fraction bits survive.
  const V shifted = fma(x, splat<V>(Sign * kLog2E), 786432.f);
  const V n = shifted - 786432.f;
  V r = fma(n, splat<V>(-Sign * kLn2High), x);  // Sign * x = n ln 2 + Sign * r
  r = fma(n, splat<V>(-Sign * kLn2Low), r);
  // Beyond 1e19 r is noise; within 0.5 it cannot overflow the value that vscalefps then takes to 0
  // or infinity.
  asm("vrangeps $2, %2, %1, %0" : "=v"(r) : "v"(r), "v"(splat<V>(0.5f)));
  V root, result;
  asm("vpermps %2, %1, %0" : "=v"(root) : "v"(shifted), "v"(roots));
  V q = fma(splat<V>(Sign * 0.16666814782106026f), r, 0.5000161788723319f);
  q = fma(q, r * r, Sign > 0 ? r : -r);
  q = fma(q, root, root);
  asm("vscalefps %2, %1, %0" : "=v"(result) : "v"(q), "v"(n));
  return result;
}
#endif

// Takes x = n ln 2 + r, |r| <= ln 2 / 2, degree 6; 2^n in two factors so that subnormal results
// round once.
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

template <int Sign, class V>
PTO_INLINE V exp_of(V x) {
  if constexpr (kIsF64<V>) {
    return in_registers([](auto v) { return exp_of_doubles(Sign > 0 ? v : -v); }, x);
  } else {
#if defined(PTO_TARGET_AVX512)
    return in_registers([](auto v) { return exp_by_table<Sign>(v); }, x);
#else
    return exp_by_polynomial(Sign > 0 ? x : -x);
#endif
  }
}
template <class V>
PTO_INLINE V exp(V x) {
  return exp_of<1>(x);
}

#if defined(PTO_TARGET_AVX512)
// Computes 2^floor(n) * q, an estimate of 2^x; 0 where x is below -126, for the CPU takes long for
// results that are subnormal.
PTO_INLINE Vec<float, 16> scaled_to_normal(Vec<float, 16> x, Vec<float, 16> q, Vec<float, 16> n) {
  uint16_t has;
  Vec<float, 16> scaled;
  asm("vcmpnltps %2, %1, %0" : "=Yk"(has) : "v"(x), "v"(splat<Vec<float, 16>>(-126.f)));
  asm("vscalefps %3, %2, %0%{%1%}%{z%}" : "=v"(scaled) : "Yk"(has), "v"(q), "v"(n));
  return scaled;
}
#endif

// Computes 2^x for x up to 0: 2.3 ULP, with AVX-512, which looks up 2^(i/16), 1.1; 0 below 2^-126.
// NaN stays.
template <class V>
PTO_INLINE V exp2_to_one(V x) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (sizeof(V) == 64) {
    const V roots = load<16>(kRootsOfTwo);
    const V shifted = x + 786432.f;  // 1.5 * 2^19: rounds to a multiple of 1/16
    const V n = shifted - 786432.f, r = x - n;
    V root;
    asm("vpermps %2, %1, %0" : "=v"(root) : "v"(shifted), "v"(roots));
    const V q = fma(root * r, horner(r, 0.6931471806f, 0.2402265f, 0.0555041f), root);
    return scaled_to_normal(x, q, n);
  }
#endif
  using I = Vec<int32_t, kCount<V>>;
  x = max_or_second(splat<V>(-127.f), x);
  const V shifted = x + 12582912.f;  // 1.5 * 2^23: rounds to an integer
  const V r = x - (shifted - 12582912.f);
  const V q = horner(r, 1.f, 0.6931470036506653f, 0.24022242426872253f, 0.05550733581185341f,
                     0.009671512991189957f, 0.001326472614891827f);
  return q * bit_cast<V>((bit_cast<I>(shifted) - (0x4b400000 - 127)) << 23);
}

// Computes 2^x for x up to 0 with a relative error of 3e-6, 0 below 2^-126: for what becomes bf16.
// NaN stays.
template <class V>
PTO_INLINE V exp2_to_one_roughly(V x) {
  constexpr float kShift = 12582912.f;  // 1.5 * 2^23: rounds to an integer
  constexpr float kC0 = 0.99999926f, kC1 = 0.69312181f, kC2 = 0.24024745f, kC3 = 0.05591786f,
                  kC4 = 0.0095701f;
#if defined(PTO_TARGET_AVX512)
  if constexpr (sizeof(V) == 64) {
    const V shifted = x + kShift, n = shifted - kShift;
    return scaled_to_normal(x, horner(x - n, kC0, kC1, kC2, kC3, kC4), n);
  }
#endif
  using I = Vec<int32_t, kCount<V>>;
  x = max_or_second(splat<V>(-127.f), x);
  const V shifted = x + kShift;
  const V q = horner(x - (shifted - kShift), kC0, kC1, kC2, kC3, kC4);
  return q * bit_cast<V>((bit_cast<I>(shifted) - (0x4b400000 - 127)) << 23);
}

// Computes a / b for b in [1, 2^100] and a in [0, b]: half an ULP, three times the throughput of
// vdivps on some machines. One Newton step on the quotient squares the 14 good bits of the
// estimate.
template <class V>
PTO_INLINE V divide_fraction(V a, V b) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (kIsF32<V>) {
    V estimate;
    asm("vrcp14ps %1, %0" : "=v"(estimate) : "v"(b));
    const V q = a * estimate;
    return fma(fma(-q, b, a), estimate, q);
  }
#endif
  return a / b;
}

template <class V>
PTO_INLINE V negative_abs(V x) {
  using M = MaskOf<V>;
  return bit_cast<V>(bit_cast<M>(x) | bit_cast<M>(sign_bits<V>()));
}

// Computes 1 / b for b in [1, infinity]: 1 ULP, 0 from 2^127 on.
template <class V>
PTO_INLINE V reciprocal_from_one(V b) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (kIsF32<V>) {
    V estimate;
    asm("vrcp14ps %1, %0" : "=v"(estimate) : "v"(b));
    V lost = fma(-estimate, b, splat<V>(1));
    // 0 times infinity is NaN; the clamp to 0.5 leaves the estimate of 0 alone.
    asm("vrangeps $2, %2, %1, %0" : "=v"(lost) : "v"(lost), "v"(splat<V>(0.5f)));
    return fma(lost, estimate, estimate);
  }
#endif
  return splat<V>(1) / b;
}

// Computes 1 / sqrt(a) from the instruction's estimate: one Newton step from 14 bits, or one step
// of the next order from 12.
template <class V>
PTO_INLINE V rsqrt(V a) {
  const V exact = splat<V>(1) / sqrt(a);  // two roundings: 1.5 ULP
  if constexpr (kIsNative<V> && kIsF32<V>) {
    V estimate;
#if defined(PTO_TARGET_AVX512)
    asm("vrsqrt14ps %1, %0" : "=v"(estimate) : "v"(a));
    V lost = fma(-(a * estimate), estimate, splat<V>(1));
    // NaN at 0 and infinity, where the estimate is the result: +0.5 leaves it alone.
    asm("vrangeps $6, %2, %1, %0" : "=v"(lost) : "v"(lost), "v"(splat<V>(0.5f)));
    return fma(estimate * 0.5f, lost, estimate);
#else
    using I = Vec<int32_t, kCount<V>>;
    using U = Vec<uint32_t, kCount<V>>;
    asm("vrsqrtps %1, %0" : "=v"(estimate) : "v"(a));
    const V lost = fma(-(a * estimate), estimate, splat<V>(1));
    const V result = fma(estimate * lost, fma(lost, splat<V>(0.375f), 0.5f), estimate);
    // One comparison for 2^-126 to the largest; the estimate has no subnormal numbers.
    const I ordinary = bit_cast<I>(bit_cast<U>(a) + 0x7f800000u) < splat<I>(-0x01000000);
    if (__builtin_expect(pack_mask(ordinary) == kEveryLane<V>, 1)) return result;
    return ordinary ? result : exact;
#endif
  }
  return exact;
}

// Computes 1 / (1 + e^-x). Floats: 0 where the exponential overflows, below -88.72, although the
// result, less than 2^-127, has subnormal numbers: a branch or a select for them costs 7 to 20 % of
// all others.
template <class V>
PTO_INLINE V sigmoid(V x) {
  if constexpr (kIsF64<V>)
    return in_registers([](auto v) { return sigmoid_of_doubles(v); }, x);
  else
    return reciprocal_from_one(exp_of<-1>(x) + splat<V>(1));
}

// An odd polynomial up to ln 2, then 1 - 2 e / (1 + e) with e = e^(-2|x|) below 1/4, where its
// error weighs half.
template <class V>
PTO_INLINE V tanh(V x) {
  if constexpr (kIsF64<V>) {
    return in_registers([](auto v) { return tanh_of_doubles(v); }, x);
  } else {
    const V e = exp(negative_abs(x + x));
    const V one = splat<V>(1);
    const V far = fma(divide_fraction(e, e + one), splat<V>(-2), 1.f);
    const V a = abs(x), z = x * x;
    const V p = horner(z, -0.33333203196525574f, 0.13329385221004486f, -0.05357832461595535f,
                       0.020145468413829803f, -0.0051887668669223785f);
    const V near = fma(p * z, a, a);
    return with_sign_of(a < splat<V>(0.6932f) ? near : far, x);
  }
}

// The least integers whose logarithms reach 1, 2, 3, ... 44.
// clang-format off
constexpr uint64_t kReachesLog[44] = {
    3u, 8u, 21u, 55u, 149u, 404u, 1097u, 2981u, 8104u, 22027u, 59875u, 162755u, 442414u, 1202605u,
    3269018u, 8886111u, 24154953u, 65659970u, 178482301u, 485165196u, 1318815735u, 3584912847u,
    9744803447u, 26489122130u, 72004899338u, 195729609429u, 532048240602u, 1446257064292u,
    3931334297145u, 10686474581525u, 29048849665248u, 78962960182681u, 214643579785917u,
    583461742527455u, 1586013452313431u, 4311231547115196u, 11719142372802612u,
    31855931757113757u, 86593400423993747u, 235385266837019986u, 639843493530054950u,
    1739274941520501048u, 4727839468229346562u, 12851600114359308276u};
// clang-format on

#if defined(PTO_TARGET_AVX512)
// Looks up entry `index` (its five low bits) of a table of 32.
PTO_INLINE Vec<float, 16> lookup(const float (&table)[32], Vec<float, 16> index) {
  using V = Vec<float, 16>;
  const V low = load<16>(table), high = load<16>(table + 16);
  asm("vpermi2ps %2, %1, %0" : "+v"(index) : "v"(low), "v"(high));
  return index;
}

// For m in [1 + i/32, 1 + (i+1)/32), halved from i = 16 on, row 0 holds R(m), a float near 1 / m (1
// next to m = 1). R is chosen so that row 1, -log R(m), is to 1.2e-10 a multiple of 2^-18 (2^-24 in
// column 30, where the result is least).
// clang-format off
constexpr float kLogTable[2][32] = {
    {1.f, 0.954428732f, 0.930723906f, 0.899192274f, 0.878724456f, 0.853800118f,
     0.832038939f, 0.808167458f, 0.788077235f, 0.76979208f, 0.751111269f, 0.735432327f,
     0.717388272f, 0.702265918f, 0.688604057f, 0.674566925f, 1.32188714f, 1.2954396f,
     1.26721811f, 1.24273634f, 1.21810472f, 1.19870293f, 1.17284834f, 1.15293527f,
     1.13146389f, 1.11224496f, 1.0942955f, 1.07686162f, 1.05679488f, 1.04157829f,
     1.02372921f, 1.f},
    {0.f, 0.0466423035f, 0.0717926025f, 0.106258392f, 0.129283905f, 0.158058167f,
     0.183876038f, 0.212985992f, 0.23815918f, 0.261634827f, 0.286201477f, 0.307296753f,
     0.332138062f, 0.353443146f, 0.373088837f, 0.393684387f, -0.279060364f,
     -0.258850098f, -0.236824036f, -0.217315674f, -0.197296143f, -0.181240082f,
     -0.159435272f, -0.142311096f, -0.123512268f, -0.106380463f, -0.0901107788f,
     -0.0740509033f, -0.0552406311f, -0.0407371521f, -0.0234520435f, 0.f}};
// clang-format on

// x = 2^e m with m in [3/4, 3/2), log x = e ln 2 - log R(m) + log(m R(m)), the last by a polynomial
// of degree 4. The first part of ln 2 makes e ln 2 - log R exact, or nearly; the second is
// positive, so that both are -infinity for x = 0.
PTO_INLINE Vec<float, 16> log_by_table(Vec<float, 16> x) {
  using V = Vec<float, 16>;
  using U = Vec<uint32_t, 16>;
  V m, all, past;
  asm("vgetmantps $15, %1, %0" : "=v"(m) : "v"(x));  // NaN below 0
  asm("vgetexpps %1, %0" : "=v"(all) : "v"(x));
  asm("vgetexpps %1, %0" : "=v"(past) : "v"(m));
  const V e = all - past, index = bit_cast<V>(bit_cast<U>(m) >> 18);
  const V r = fma(m, lookup(kLogTable[0], index), -1.f);
  const V p = horner(r, -0.500001192f, 0.333368808f, -0.244064838f);
  const V low = fma(e, splat<V>(1.42860677e-06f), fma(p, r * r, r));
  return fma(e, splat<V>(0.693145752f), lookup(kLogTable[1], index)) + low;
}
#endif

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m by a polynomial of degree 11 in m - 1. Integers:
// without its fraction; 0 where there is no logarithm.
template <class V>
PTO_INLINE V log(V x) {
  if constexpr (!kIsFloat<LaneOf<V>>) {
    using E = LaneOf<V>;
    return each_lane(x, [](E a) {
      int n = 0;
      while (a > 0 && n < 44 && uint64_t(a) >= kReachesLog[n]) ++n;
      return E(n);
    });
  } else if constexpr (kIsF64<V> && !kHasFma) {  // vectors would take twice as long
    return each_lane(x, [](double a) { return __builtin_log(a); });
  } else if constexpr (kIsF64<V>) {
    return in_registers([](auto v) { return log_of_doubles(v); }, x);
  } else {
#if defined(PTO_TARGET_AVX512)
    return in_registers([](auto v) { return log_by_table(v); }, x);
#else
    using I = Vec<int32_t, kCount<V>>;
    const V scaled = x < splat<V>(0x1p-126f) ? x * 0x1p23f : x;
    const V offset = x < splat<V>(0x1p-126f) ? splat<V>(-23.f) : V{};
    const I shifted = bit_cast<I>(scaled) - 0x3f3504f3;  // sqrt(1/2) becomes 0
    const V e = convert<float>(shifted >> 23) + offset;
    const V f = bit_cast<V>((shifted & 0x7fffff) + 0x3f3504f3) - 1.f;
    const V p = horner(f, 0.3333331259873127f, -0.25000009615300844f, 0.20002118966860294f,
                       -0.16667995166897698f, 0.14219546356896645f, -0.12405597883562358f,
                       0.11888211841432701f, -0.11675615290220509f, 0.0674648970833358f);
    const V z = f * f;
    V low = fma(p * z, f, e * splat<V>(kLn2Low));
    low = fma(z, splat<V>(-0.5f), low);
    const V result = fma(e, splat<V>(kLn2High), f + low);
    const V infinity = splat<V>(__builtin_inff());
    const V special = x < V{} ? splat<V>(__builtin_nanf("")) : x == V{} ? -infinity : x;
    return ((x > V{}) & (x < infinity)) ? result : special;
#endif
  }
}

}  // namespace lanes
PTO_NAMESPACE_END
