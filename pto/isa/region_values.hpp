// SPDX-License-Identifier: Apache-2.0
// Region values: the tiles that a compiled region computes with, by width, and their conversions.
//
//     auto v0 = spread(Whole<kStep>{}, 1.5f);       // a tile of equal elements
//     auto v1 = round_to<bfloat16_t>(Whole<kStep>{}, v0);
//
// `w` is a width: Whole<W> for a micro-tile that stays in registers, Rest for up to one vector at
// the end of a row. A Rest's tile is one whole vector, and memory gives and takes count() elements
// of it. Values have a compute type: float for half and bfloat16_t, mask32 for bool.
//
// Thread safety: pure functions.
#pragma once
#include "pto/isa/instructions.hpp"

#define PTO_LAMBDA_INLINE __attribute__((always_inline))

PTO_NAMESPACE_BEGIN
namespace region {

// Elements of a step: 4 vectors of floats hide the latency of their instructions; 1 in tails. A
// row's own value takes 4 equal lanes, since dividing a whole vector takes longer.
constexpr int kStep = kMicro<float> / 2;
constexpr int kTail = kLanes<float>;
constexpr int kRow = 4;

PTO_INLINE int64_t min_size(int64_t a, int64_t b) { return a < b ? a : b; }
PTO_INLINE int64_t max_size(int64_t a, int64_t b) { return a > b ? a : b; }

template <int W>
struct Whole {
  static constexpr PTO_INLINE Counted<W> count() { return {}; }
  static constexpr PTO_INLINE int elements() { return W; }
};
using Row = Whole<kRow>;

struct Rest {
  int valid;
  PTO_INLINE int count() const { return valid; }
  PTO_INLINE int elements() const { return valid; }
};

template <class T, int W>
PTO_INLINE MicroTile<T, W> make(Whole<W>) {
  return {};
}
template <class T>
PTO_INLINE MicroTile<T, kTail> make(Rest) {
  return {};
}

template <int W, class Body>
PTO_INLINE void for_each_tile(int64_t begin, int64_t end, Body body) {
  int64_t j = begin;
  if constexpr (W > kTail)
    for (; j + W <= end; j += W) body(j, Whole<W>{});
  if (__builtin_expect(j < end, 0))  // out of the way of the rows that need no tail
    for (; j < end; j += kTail) body(j, Rest{int(min_size(end - j, kTail))});
}

// Runs a body for each vector of a step, with the place of its first element.
template <int W, class Body>
PTO_INLINE void for_each_vector(Whole<W>, Body body) {
  PTO_UNROLL
  for (int i = 0; i < W; i += kTail) body(i, Whole<kTail>{});
}
template <class Body>
PTO_INLINE void for_each_vector(Rest w, Body body) {
  body(0, w);
}

// Puts a vector into the tile of its step. No load moves across: from the second cache on, a line
// of each array in turn, with the stores of a step behind all its loads, comes up to a third faster
// than a few lines of one array after those of another (Zen 4).
template <class T, int W>
PTO_INLINE void put(MicroTile<T, W>& step, int place, const MicroTile<T, kTail>& vector) {
  auto v = lanes::load<kTail>(vector.data());
#if defined(__x86_64__)
  asm volatile("" : "+x"(v) : : "memory");
#endif
  lanes::store<kTail>(step.data() + place, v);
}

// --- conversions -------------------------------------------------------------------------------

template <class T>
struct StoredAs : TypeIs<T> {};
template <>
struct StoredAs<bool> : TypeIs<uint8_t> {};  // 0 or 1
template <class T>
using Stored = typename StoredAs<T>::type;

template <class W, class T>
PTO_INLINE auto spread(W w, T value) {
  auto t = make<T>(w);
  TEXPANDS(t, value);
  return t;
}

// Returns the numbers from `start` on.
template <class W>
PTO_INLINE auto positions(W w, int64_t start) {
  constexpr int N = kLanes<int64_t>;
  auto t = make<int64_t>(w);
  PTO_UNROLL
  for (int i = 0; i < decltype(t)::Numel; i += N)
    lanes::store<N>(t.data() + i, lanes::iota<int64_t, N>() + (start + i));
  return t;
}

template <class To>
constexpr RoundMode kConvertMode =
    kSame<To, float> || kSame<To, double> || kSame<To, half> || kSame<To, bfloat16_t>
        ? RoundMode::CAST_RINT
        : RoundMode::CAST_TRUNC;

// Returns a row's own value from its tile.
template <class T>
PTO_INLINE T own(const MicroTile<T, kRow>& t) {
  return T(lanes::load<kRow>(t.data())[0]);
}

// Converts as C does: floats round to nearest even, integers truncate, booleans are `value != 0`.
template <class To, class W, class Source>
PTO_INLINE auto convert(W w, Source& s) {
  using From = typename Source::DType;
  auto t = make<To>(w);
  if constexpr (kSame<To, From>)
    t = s;
  else if constexpr (kSame<To, mask32>) {
    auto zero = spread(w, From(0));
    TCMP(t, s, zero, CmpMode::NE);
  } else
    TCVT(t, s, kConvertMode<To>);
  return t;
}

// Rounds the values once to the precision of Half: a double or an integer does not become a float
// in between.
template <class Half, class W, class Source>
PTO_INLINE auto round_to(W w, Source& s) {
  using From = typename Source::DType;
  constexpr bool kIsByte = kSame<From, int8_t> || kSame<From, uint8_t>;
  if constexpr (kIsByte && (kSame<Half, half> || kSame<Half, bfloat16_t>)) {
    return convert<float>(w, s);  // which holds what both hold
  } else if constexpr (kSame<Half, bfloat16_t> && kSame<From, float>) {
    auto t = make<float>(w);
    map([](auto x) { return lanes::rounded_to_bfloat16(x); }, t, s);
    return t;
  } else {
    auto rounded = convert<Half>(w, s);
    return convert<float>(w, rounded);
  }
}

// Returns what round_to<Half> gave as it lies in memory. Numbers of bfloat16_t are the upper half
// of a float.
template <class Half, class W, class Source>
PTO_INLINE auto rounded(W w, Source& s) {
  if constexpr (kSame<Half, bfloat16_t>) {
    auto t = make<uint16_t>(w);
    map([](auto x) { return lanes::upper_halves(x); }, t, s);
    return t;
  } else {
    return convert<Half>(w, s);
  }
}

// --- additions of products with one rounding, on CPUs that can ----------------------------------

#define PTO_WITH_PRODUCT(name, value)                              \
  template <class D, class A, class B, class C>                    \
  PTO_INLINE void name(D& d, const A& a, const B& b, const C& c) { \
    map([](auto x, auto y, auto z) { return value; }, d, a, b, c); \
  }
PTO_WITH_PRODUCT(multiply_add, lanes::fma(x, y, z))
PTO_WITH_PRODUCT(multiply_subtract, lanes::fma(x, y, -z))
PTO_WITH_PRODUCT(subtract_product, lanes::fma(-x, y, z))
#undef PTO_WITH_PRODUCT

}  // namespace region
PTO_NAMESPACE_END
