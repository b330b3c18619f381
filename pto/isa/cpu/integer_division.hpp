// SPDX-License-Identifier: Apache-2.0
// Division of integers in vectors: quotients towards zero, and what they leave.
//
//     auto q = integer_quotient(a, b);    // a / b; the smallest integer / -1 wraps
//     auto r = integer_rest(a, b);        // a % b, of the sign of a
//
// Processors divide floats in vectors, integers one by one. A quotient lies further below the next
// integer than a float that holds a exactly rounds, so that floats find the same quotient.
//
// Invariant: nothing traps; a / 0 and a % 0 are 0.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/vec.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

template <class E>
PTO_INLINE E divide_scalar(E a, E b) {
  if (b == 0) return 0;
  if constexpr (kIsSigned<E>) {
    if (b == E(-1)) return E(-uint64_t(a));
  }
  return E(a / b);
}
template <class E>
PTO_INLINE E rest_scalar(E a, E b) {
  if (b == 0 || (kIsSigned<E> && b == E(-1))) return 0;
  return E(a % b);
}

// The bytes of the largest integers whose quotients floats find faster: AVX2 has no instruction
// from 64 bits to doubles, and SSE2 divides two doubles at a time.
constexpr int kBytesAsFloats = kVectorBytes >= 64 ? 8 : kVectorBytes >= 32 ? 4 : 2;

// Says whether lanes like those of a are divided as floats, which hold them.
template <class V>
PTO_INLINE bool divides_as_floats([[maybe_unused]] V a) {
  using E = LaneOf<V>;
  if constexpr (sizeof(E) > kBytesAsFloats) {
    return false;
  } else if constexpr (sizeof(E) < 8) {
    return true;
  } else {
    using U = Vec<uint64_t, kCount<V>>;
    constexpr int kExact = 52;  // doubles hold 53 bits; a divisor beyond may round to 2^53
    const U magnitude = bit_cast<U>(a) + (kIsSigned<E> ? uint64_t(1) << kExact : 0);
    const U beyond = magnitude >> (kIsSigned<E> ? kExact + 1 : kExact);
    uint64_t all = 0;
    for (int i = 0; i < kCount<V>; ++i) all |= beyond[i];
    return all == 0;
  }
}

// Divides by lanes that are neither 0 nor -1.
template <class V>
PTO_INLINE V quotient_of_floats(V a, V by) {
  using E = LaneOf<V>;
  using F = typename Choose<sizeof(E) < 4, float, double>::type;
  if constexpr (kCount<V> * int(sizeof(F)) > kVectorBytes) {
    const Halves<V> x(a), y(by);
    return join(quotient_of_floats(x.low, y.low), quotient_of_floats(x.high, y.high));
  } else if constexpr (sizeof(E) < 4) {
    const auto wide = [](V v) { return convert<float>(convert<int32_t>(v)); };
    return convert<E>(convert<int32_t>(wide(a) / wide(by)));
  } else {
    return convert<E>(convert<F>(a) / convert<F>(by));
  }
}

// Quotients and rests of vectors of at most one register.
template <class V>
PTO_INLINE V register_quotient(V a, V b) {
  using E = LaneOf<V>;
  using U = Vec<UnsignedOf<E>, kCount<V>>;
  if (!divides_as_floats(a)) {
    for (int i = 0; i < kCount<V>; ++i) a[i] = divide_scalar<E>(a[i], b[i]);
    return a;
  }
  const V zero = {}, one = splat<V>(1);
  const auto is_zero = b == zero;
  if constexpr (kIsSigned<E>) {
    const auto negates = b == zero - one;
    const V found = quotient_of_floats(a, select(is_zero | negates, one, b));
    const V negative = bit_cast<V>(U{} - bit_cast<U>(a));
    return select(is_zero, zero, select(negates, negative, found));
  } else {
    return select(is_zero, zero, quotient_of_floats(a, select(is_zero, one, b)));
  }
}

template <class V>
PTO_INLINE V register_rest(V a, V b) {
  using E = LaneOf<V>;
  using U = Vec<UnsignedOf<E>, kCount<V>>;
  if (!divides_as_floats(a)) {
    for (int i = 0; i < kCount<V>; ++i) a[i] = rest_scalar<E>(a[i], b[i]);
    return a;
  }
  const U product = bit_cast<U>(register_quotient(a, b)) * bit_cast<U>(b);
  return select(b == V{}, V{}, bit_cast<V>(bit_cast<U>(a) - product));
}

#define PTO_BY_REGISTER(name)                                                    \
  template <class V>                                                             \
  PTO_INLINE V integer_##name(V a, V b) {                                        \
    if constexpr (sizeof(V) > size_t(kVectorBytes)) {                            \
      const Halves<V> x(a), y(b);                                                \
      return join(integer_##name(x.low, y.low), integer_##name(x.high, y.high)); \
    } else {                                                                     \
      return register_##name(a, b);                                              \
    }                                                                            \
  }
PTO_BY_REGISTER(quotient)
PTO_BY_REGISTER(rest)
#undef PTO_BY_REGISTER

}  // namespace lanes
PTO_NAMESPACE_END
