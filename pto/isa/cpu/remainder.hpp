// SPDX-License-Identifier: Apache-2.0
// Remainders: fmod and remainder on vectors of numbers.
//
//     auto r = fmod(a, b);        // C's fmod and %: of the sign of a; a % 0 of integers is 0
//     auto m = remainder(a, b);   // Python's %: of the sign of b
//
// Invariant: results are exact; math_test.cpp compares bits with C's fmod on every target.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/trigonometry.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

template <class E>
PTO_INLINE E fmod_scalar(E a, E b) {
  if constexpr (kSame<E, float>)
    return __builtin_fmodf(a, b);
  else if constexpr (kSame<E, double>)
    return __builtin_fmod(a, b);
  else
    return rest_scalar(a, b);
}

// Takes the whole part n of the rounded quotient, at most one too large, from |a|. Where a fraction
// of the quotient exists (n < 2^23, or 2^52), n is exact, and so is |a| - n |b|: it is less than
// |b| and a multiple of the last place of a or of b. The C library has the other lanes, those with
// b = 0, with infinities and with NaN.
template <class V>
PTO_INLINE V float_fmod(V a, V b) {
  using E = LaneOf<V>;
  const V size = abs(a), by = abs(b), count = trunc(size / by);
  const V rest = fma(-count, by, size), result = with_sign_of(rest < V{} ? rest + by : rest, a);
  const V most = splat<V>(kSame<E, float> ? E(0x1p23) : E(0x1p52));
  const uint32_t good = pack_mask((count < most) & (by < splat<V>(E(__builtin_inf()))));
  if (good == kEveryLane<V>) return result;
  return mend_lanes(
      result, good, [](E x, E y) { return fmod_scalar<E>(x, y); }, a, b);
}

template <class V>
PTO_INLINE V fmod(V a, V b) {
  using E = LaneOf<V>;
  if constexpr (kIsNative<V>)
    return float_fmod(a, b);
  else if constexpr (kIsFloat<E>)
    return each_lane(a, b, [](E x, E y) { return fmod_scalar<E>(x, y); });
  else
    return integer_rest(a, b);
}

template <class E>
PTO_INLINE E remainder_scalar(E a, E b) {
  const E r = fmod_scalar<E>(a, b);
  return r != 0 && (r < 0) != (b < 0) ? E(r + b) : r;
}
template <class V>
PTO_INLINE V remainder(V a, V b) {
  using U = Vec<UnsignedOf<LaneOf<V>>, kCount<V>>;  // where signs are alike, the sum may overflow
  const V zero = {}, rest = fmod(a, b), sum = bit_cast<V>(bit_cast<U>(rest) + bit_cast<U>(b));
  return select((rest != zero) & ((rest < zero) ^ (b < zero)), sum, rest);
}

}  // namespace lanes
PTO_NAMESPACE_END
