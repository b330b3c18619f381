// SPDX-License-Identifier: Apache-2.0
// Polynomials: what elementary functions are computed with: whole registers, Horner's rule, sums
// and products without loss.
//
//     auto y = horner(x, 1.0, 0.5, 0.25);           // 1 + x / 2 + x^2 / 4
//     auto p = exact_product(a, b);                 // p.high + p.low is a * b
//     y = in_registers([](auto v) { return fma(v, v, v); }, x);
//
// Invariant: a lane depends on the same lanes only; what is called exact takes whole registers.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/leaves.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

template <class V>
PTO_INLINE V horner(V, LaneOf<V> c0) {
  return splat<V>(c0);
}
// Evaluates c0 + x (c1 + x (c2 + ...)).
template <class V, class... C>
PTO_INLINE V horner(V x, LaneOf<V> c0, C... c) {
  return fma(horner(x, LaneOf<V>(c)...), x, c0);
}

// The terms of even and of odd powers, the latter divided by x.
template <class V>
struct EvenOdd {
  V even, odd;
};
template <class V>
PTO_INLINE EvenOdd<V> even_odd(V, LaneOf<V> c0, LaneOf<V> c1) {
  return {splat<V>(c0), splat<V>(c1)};
}
template <class V>
PTO_INLINE EvenOdd<V> even_odd(V square, LaneOf<V> c0, LaneOf<V> c1, LaneOf<V> c2) {
  return {fma(splat<V>(c2), square, c0), splat<V>(c1)};
}
template <class V, class... C>
PTO_INLINE EvenOdd<V> even_odd(V square, LaneOf<V> c0, LaneOf<V> c1, C... c) {
  const auto rest = even_odd(square, LaneOf<V>(c)...);
  return {fma(rest.even, square, c0), fma(rest.odd, square, c1)};
}
// As horner(), from x and x^2, in two chains side by side: a CPU reorders only a few iterations of
// a loop with one long chain.
template <class V, class... C>
PTO_INLINE V horner_in_two(V x, V square, C... c) {
  const auto part = even_odd(square, LaneOf<V>(c)...);
  return fma(part.odd, x, part.even);
}

// A vector of the same lanes that fills a register; zeros follow the part. It never goes through
// memory, where a wide load of what was just stored in a narrow one waits.
template <class V>
using Register = Vec<LaneOf<V>, kVectorBytes / int(sizeof(LaneOf<V>))>;
template <class V, int... I>
PTO_INLINE auto doubled(V part, Indices<I...>) {
  return __builtin_shufflevector(part, V{}, I...);
}
template <class V>
PTO_INLINE Register<V> widened(V part) {
  constexpr int kLeast = 16;  // bytes of the shortest register
  if constexpr (sizeof(V) == kVectorBytes) {
    return part;
  } else if constexpr (sizeof(V) >= kLeast) {
    return widened(doubled(part, typename IndicesTo<2 * kCount<V>>::type()));
  } else {
    Vec<LaneOf<V>, kLeast / int(sizeof(LaneOf<V>))> whole = {};
    __builtin_memcpy(&whole, &part, sizeof(part));
    return widened(whole);
  }
}

// Calls f on whole registers, so that a lane has the same bits in vectors of every length.
template <class F, class V, class... W>
PTO_INLINE V in_registers(F f, V x, W... y) {
  if constexpr (sizeof(V) == kVectorBytes) {
    return f(x, y...);
  } else if constexpr (sizeof(V) > kVectorBytes) {
    return join(in_registers(f, Halves<V>(x).low, Halves<W>(y).low...),
                in_registers(f, Halves<V>(x).high, Halves<W>(y).high...));
  } else {
    const Register<V> whole = f(widened(x), widened(y)...);
    __builtin_memcpy(&x, &whole, sizeof(x));
    return x;
  }
}

// The number high + low, |low| up to half a unit in the last place of `high`.
template <class V>
struct Pair {
  V high, low;
};

// Adds without loss where |a| >= |b|, or a is 0.
template <class V>
PTO_INLINE Pair<V> exact_sum(V a, V b) {
  const V sum = a + b;
  return {sum, (a - sum) + b};
}

// Adds without loss whichever is larger.
template <class V>
PTO_INLINE Pair<V> exact_sum_of_any(V a, V b) {
  const V sum = a + b, second = sum - a;
  return {sum, (a - (sum - second)) + (b - second)};
}

// Multiplies doubles of a whole register without loss; without a fused instruction to 2^-106, in
// halves of 26 and 27 bits.
template <class V>
PTO_INLINE Pair<V> exact_product(V a, V b) {
  const V product = rounded(a * b);
  if constexpr (kHasFma) {
    return {product, fma(a, b, -product)};
  } else {
    using M = MaskOf<V>;
    const M upper = splat<M>(int64_t(~uint64_t(0) << 27));
    const V first = bit_cast<V>(bit_cast<M>(a) & upper), second = a - first;
    const V third = bit_cast<V>(bit_cast<M>(b) & upper), fourth = b - third;
    return {product,
            ((first * third - product) + (first * fourth + second * third)) + second * fourth};
  }
}

// The quotient first + rest * reciprocal of doubles.
template <class V>
struct Quotient {
  V first, rest, reciprocal;
  PTO_INLINE V low() const { return rest * reciprocal; }
  PTO_INLINE V rounded_once() const { return fma(rest, reciprocal, first); }
};

// Divides doubles of a whole register by 1 to 3, with an error of about 2^-104.
template <class V>
PTO_INLINE Quotient<V> quotient_by_pair(V a, Pair<V> b) {
  const V reciprocal = 1.0 / b.high;
  const V first = rounded(a * reciprocal);
  if constexpr (kHasFma) {
    return {first, fma(-first, b.low, fma(-first, b.high, a)), reciprocal};
  } else {
    const auto product = exact_product(first, b.high);
    return {first, (a - product.high) - product.low - first * b.low, reciprocal};
  }
}

}  // namespace lanes
PTO_NAMESPACE_END
