// SPDX-License-Identifier: Apache-2.0
// erf: the error function on vectors of float and double, for GELU at full speed.
//
//     auto y = erf(x);     // 1.5 ULP; odd; +-1 from |x| = 3.93 on; NaN stays NaN
//     auto z = erf(d);     // doubles: 1.5 ULP; +-1 from |x| = 5.93 on
//
// Invariant: math_test.cpp and doubles_test.cpp check the error, as in math.hpp.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/math.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

#if defined(PTO_TARGET_AVX512)
// erf(x) / x on [i/8, (i+1)/8], i = 0..31, as s + p(x - i/8) with s a power of two, so that x s is
// exact, and p of degree 4, fitted for the least relative error (3e-9). Column i holds s and p.
constexpr float kErf[6][32] = {
    {1.f,  1.f,   1.f,   1.f,   1.f,   1.f,   1.f,   1.f,   1.f,   1.f,  1.f,
     0.5f, 0.5f,  0.5f,  0.5f,  0.5f,  0.5f,  0.5f,  0.5f,  0.5f,  0.5f, 0.5f,
     0.5f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f},
    {0.128379166f,   0.122529633f,   0.10530556f,   0.0776450858f, 0.0409997515f,   -0.00281459116f,
     -0.0517924912f, -0.103914216f,  -0.157299206f, -0.210321575f, -0.261679888f,   0.189578235f,
     0.144070104f,   0.102119222f,   0.0638123825f, 0.029061364f,  -0.00233886694f, -0.0306607187f,
     -0.0562056527f, -0.0792770237f, -0.100162782f, -0.119125858f, -0.136400223f,   0.0978094414f,
     0.0833259672f,  0.0699968338f,  0.0576909855f, 0.0462957583f, 0.035714075f,    0.0258619878f,
     0.0166666359f,  0.00806450471f},
    {2.23185367e-07f, -0.0931542888f, -0.181164727f,  -0.259444892f,  -0.324433178f,
     -0.37389636f,    -0.407034457f,  -0.424388945f,  -0.427593142f,  -0.419026285f,
     -0.401439458f,   -0.377613813f,  -0.350093633f,  -0.321013898f,  -0.292021692f,
     -0.264275223f,   -0.238497257f,  -0.215058208f,  -0.194067627f,  -0.175459608f,
     -0.159063578f,   -0.144657612f,  -0.132004887f,  -0.12087623f,   -0.111062221f,
     -0.102378242f,   -0.0946651548f, -0.0877875462f, -0.0816310346f, -0.0760992393f,
     -0.0711108595f,  -0.0665972009f},
    {-0.376139522f, -0.365687162f,  -0.33541441f,  -0.288571626f, -0.229989782f, -0.165330559f,
     -0.100268021f, -0.0397593752f, 0.0124747558f, 0.0541995466f, 0.0846480876f, 0.10429287f,
     0.114491954f,  0.117099725f,   0.114115715f,  0.107417323f,  0.0985931978f, 0.0888703838f,
     0.0791139752f, 0.0698728859f,  0.0614472553f, 0.0539589897f, 0.047414273f,  0.0417523198f,
     0.0368801728f, 0.0326950923f,  0.0290975198f, 0.0259975009f, 0.0233170278f, 0.0209900755f,
     0.0189615153f, 0.017185621f},
    {0.000257566397f, 0.0562757701f,   0.106113367f,    0.144655377f,    0.168599218f,
     0.176853731f,    0.170492098f,    0.152313009f,    0.126151532f,    0.0961188748f,
     0.0659382343f,   0.0384877697f,   0.0155952601f,   -0.00193941756f, -0.0141594335f,
     -0.0216855984f,  -0.0254443008f,  -0.0264401753f,  -0.0255982187f,  -0.023677323f,
     -0.0212425701f,  -0.0186759438f,  -0.0162110049f,  -0.0139699811f,  -0.0120011754f,
     -0.0103079779f,  -0.00886986218f, -0.00765607087f, -0.00663366728f, -0.00577172637f,
     -0.00504311034f, -0.00442489097f},
    {0.11108911f,     0.0989578292f,   0.0766951069f,  0.0478584766f,  0.016802961f,
     -0.012195807f,   -0.0357143283f,  -0.0516796224f, -0.0595157556f, -0.0599626862f,
     -0.0546707734f,  -0.0457086563f,  -0.0351113379f, -0.0245569237f, -0.0152031891f,
     -0.00767030194f, -0.00212618499f, 0.00157774298f, 0.00376557768f, 0.0048202672f,
     0.0051048738f,   0.00491595455f,  0.00447768718f, 0.00393878156f, 0.00339031545f,
     0.00288115907f,  0.00243254122f,  0.00204931921f, 0.00172777323f, 0.00146048819f,
     0.00123911805f,  0.00105576497f}};

PTO_INLINE Vec<float, 16> erf_by_table(Vec<float, 16> x) {
  using V = Vec<float, 16>;
  const V a = min_or_second(splat<V>(0x1.fffffep+1f), abs(x));
  const V magic = splat<V>(1572864.f);  // 1.5 * 2^20: its last bit is 1/8
  V shifted;
  asm("vaddps %{rz-sae%}, %2, %1, %0" : "=v"(shifted) : "v"(a), "v"(magic));
  const V r = a - (shifted - magic);
  V p = lookup(kErf[5], shifted);
  p = fma(p, r, lookup(kErf[4], shifted));
  p = fma(p, r, lookup(kErf[3], shifted));
  p = fma(p, r, lookup(kErf[2], shifted));
  p = fma(p, r, lookup(kErf[1], shifted));
  p = fma(p, a, lookup(kErf[0], shifted) * a);
  return with_sign_of(min_or_second(splat<V>(1.f), p), x);
}
#endif

// An odd polynomial up to 1, then 1 - e^-q(x). An error of e^-q weighs below 1/6 of an ULP of the
// result, so a degree of 5 and one part of ln 2 suffice.
template <class V>
PTO_INLINE V erf_by_branches(V x) {
  using I = Vec<int32_t, kCount<V>>;
  const V a = min_or_second(splat<V>(4.f), abs(x));
  const V z = a * a;
  const V p = horner(z, 0.128379166f, -0.3761262586f, 0.112835854f, -0.02685382031f,
                     0.005188341539f, -0.0008010303679f, 7.854197906e-05f);
  const V near = fma(a, p, a);
  const V q = horner(a, 0.0003414814599f, 1.127089364f, 0.6381445359f, 0.1031070202f,
                     -0.02183819507f, 0.00294769208f, -0.0001863827419f);
  const V shifted = fma(q, splat<V>(-kLog2E), 12582912.f);
  const V r = fma(shifted - 12582912.f, splat<V>(-0.693147181f), -q);
  V e = horner(r, 0.4999923145f, 0.1666711455f, 0.04189015871f, 0.008312529812f);
  e = fma(e, r * r, r) + 1.f;
  e = bit_cast<V>(bit_cast<I>(e) + ((bit_cast<I>(shifted) - 0x4b400000) << 23));
  return with_sign_of(a >= splat<V>(1) ? 1.f - e : near, x);  // NaN takes the polynomial
}

// The same for doubles: degree 11 in x^2 and 18 in |x|, with errors of 2^-57 of the result.
template <class V>
PTO_INLINE V erf_of_doubles(V x) {
  const V a = min_or_second(splat<V>(6), abs(x)), z = a * a;  // NaN stays
  const V p = horner_in_two(z, z * z, 0.12837916709551256, -0.3761263890318352, 0.1128379167094419,
                            -0.02686617064311167, 0.0052239776061160995, -0.0008548325929041063,
                            0.00012055293564755278, -1.4924712004825395e-05, 1.6447127238882299e-06,
                            -1.6206276240023495e-07, 1.371080201277895e-08, -7.779109536406081e-10);
  const V q = horner_in_two(a, z, 2.593267896890388e-07, 1.1283765267743102, 0.6366322562462845,
                            0.10273629723171371, -0.01905604842360924, -0.0003133580508171577,
                            0.0018063098308502394, -0.000674223984224861, 6.798429119759974e-05,
                            5.743221664464892e-05, -3.926850262400294e-05, 1.4464039451585694e-05,
                            -3.7510688686005532e-06, 7.243487535869584e-07, -1.0460436227731273e-07,
                            1.1030547172547292e-08, -8.043085660496667e-10, 3.628302522638805e-11,
                            -7.629019308975407e-13);
  const V one = splat<V>(1);
  return with_sign_of(a >= one ? one - exp_within_range(-q) : fma(a, p, a), x);
}

template <class V>
PTO_INLINE V erf(V x) {
  if constexpr (kIsF64<V>) {
    return in_registers([](auto v) { return erf_of_doubles(v); }, x);
  } else {
#if defined(PTO_TARGET_AVX512)
    return in_registers([](auto v) { return erf_by_table(v); }, x);
#else
    return erf_by_branches(x);
#endif
  }
}

}  // namespace lanes
PTO_NAMESPACE_END
