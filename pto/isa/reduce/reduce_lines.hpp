// SPDX-License-Identifier: Apache-2.0
// Reduce lines: reduces lines of a tile to a vector each, and such vectors to a number each.
//
//     const auto v = reduce_line<F, float, N>(row, length);       // N partial results of one line
//     reduce_lines<F, N, N>(line, 0);                             // lane r: the result of line(r)
//     ExtremeLines<Largest, float, N> watched({row, N, length});  // skips NaN; saw_nan() says so
//
// Invariant: the order of a reduction depends on its length only. Extremes are exact where none of
// their lines saw a NaN; they may see one where none was, never the other way round.
// Thread safety: pure functions.
#pragma once
#include "pto/isa/cpu/shuffle.hpp"
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

// 2 N elements, in an order of their own: two bfloat16_t of one word become float without moving
// between lanes.
template <class C, int N>
struct Twice {
  Vec<C, N> first, second;

  template <class T>
  explicit PTO_INLINE Twice(const T* s) {
    if constexpr (kSame<T, bfloat16_t> && kSame<C, float>) {
      using Words = Vec<uint32_t, N>;
      const auto words = bit_cast<Words>(lanes::load<2 * N>(reinterpret_cast<const uint16_t*>(s)));
      first = bit_cast<Vec<C, N>>(words << 16);
      second = bit_cast<Vec<C, N>>(words & lanes::splat<Words>(0xffff0000u));
    } else {
      first = lanes::convert<C>(lanes::load<N>(s));
      second = lanes::convert<C>(lanes::load<N>(s + N));
    }
  }
};

template <class F, class C, int N, class T>
PTO_INLINE Vec<C, N> reduce_line(const T* s, int length) {
  using V = Vec<C, N>;
  const V start = lanes::splat<V>(identity<C>(F::kStart));
  V a = start, b = start, c = start, d = start;
  int i = 0;
  if (4 * N <= length) {
    const Twice<C, N> left(s), right(s + 2 * N);
    a = left.first, b = left.second, c = right.first, d = right.second;
    for (i = 4 * N; i + 4 * N <= length; i += 4 * N) {
      const Twice<C, N> next(s + i), last(s + i + 2 * N);
      a = evaluate<F>(a, next.first);
      b = evaluate<F>(b, next.second);
      c = evaluate<F>(c, last.first);
      d = evaluate<F>(d, last.second);
    }
  }
  for (; i + N <= length; i += N) a = evaluate<F>(a, lanes::convert<C>(lanes::load<N>(s + i)));
  if (i < length) {
    const int n = length - i;
    b = evaluate<F>(b, lanes::select(lanes::first<V>(n),
                                     lanes::convert<C>(lanes::load_part<N>(s + i, n)), start));
  }
  return evaluate<F>(evaluate<F>(a, b), evaluate<F>(c, d));
}

// Lines of `length` elements, `stride` apart.
template <class T>
struct Lines {
  const T* from;
  int stride, length;
};

template <class F, class C, class T, int N>
struct UsualLines : Lines<T> {
  PTO_INLINE Vec<C, N> operator()(int line) const {
    return reduce_line<F, C, N>(this->from + line * this->stride, this->length);
  }
};

// Lanes whose index has the bit Distance come from the second vector, from across that distance.
template <int Distance>
struct UpperAcross {
  static constexpr int at(int i, int n) { return (i ^ Distance) + (i & Distance ? n : 0); }
};

// Combines the lines first, first + Step ..., N / Count lanes apart: with Count = N, a lane per
// line. Two vectors of lines become one by a blend, a shuffle and a step of F, so that N lines take
// N - 1 of each, where one after another they would take N log2(N) shuffles.
template <class F, int N, int Count, int Step = 1, class Line>
PTO_INLINE auto reduce_lines(Line& line, int first) {
  if constexpr (Count == 1) {
    return line(first);
  } else {
    constexpr int kDistance = N / Count;
    const auto a = reduce_lines<F, N, Count / 2, 2 * Step>(line, first);
    const auto b = reduce_lines<F, N, Count / 2, 2 * Step>(line, first + Step);
    return evaluate<F>(lanes::blend_upper<kDistance>(a, b),
                       lanes::shuffle<UpperAcross<kDistance>>(a, b));
  }
}

// True for maxima (F starts from the lowest value) and minima of floats: they compare numbers
// without a look at NaN, which a watch notes beside.
template <class F>
constexpr bool kIsExtreme = F::kStart == kLowest || F::kStart == kHighest;
template <class F>
struct ExtremeOf {
  static constexpr ElementSet kTypes = kOrdered;
  // Returns b where a is NaN.
  template <class V>
  static PTO_INLINE V apply(V a, V b) {
    if constexpr (F::kStart == kLowest)
      return lanes::max_or_second(a, b);
    else
      return lanes::min_or_second(a, b);
  }
};

// Floats: a NaN as `a` of ExtremeOf is skipped; the sum of all is NaN where one was, and where
// infinities of both signs met.
template <class F, class T, int N>
class ExtremeLines : Lines<T> {
  using V = Vec<T, N>;

 public:
  explicit PTO_INLINE ExtremeLines(Lines<T> lines) : Lines<T>(lines) {}
  PTO_INLINE V operator()(int line) {
    const T* s = this->from + line * this->stride;
    const int count = this->length;
    const V start = lanes::splat<V>(identity<T>(F::kStart));
    V a = start, b = start, c = start, d = start;
    int i = 0;
    if (4 * N <= count) {
      a = lanes::load<N>(s), b = lanes::load<N>(s + N);
      c = lanes::load<N>(s + 2 * N), d = lanes::load<N>(s + 3 * N);
      watch(a, sum_a_), watch(b, sum_b_), watch(c, sum_c_), watch(d, sum_d_);
      for (i = 4 * N; i + 4 * N <= count; i += 4 * N) {
        a = take(lanes::load<N>(s + i), a, sum_a_);
        b = take(lanes::load<N>(s + i + N), b, sum_b_);
        c = take(lanes::load<N>(s + i + 2 * N), c, sum_c_);
        d = take(lanes::load<N>(s + i + 3 * N), d, sum_d_);
      }
    }
    for (; i + N <= count; i += N) a = take(lanes::load<N>(s + i), a, sum_a_);
    if (i < count) {
      const int n = count - i;
      const V rest = lanes::load_part<N>(s + i, n);
      watch(rest, sum_b_);
      b = ExtremeOf<F>::apply(lanes::select(lanes::first<V>(n), rest, start), b);
    }
    return ExtremeOf<F>::apply(ExtremeOf<F>::apply(a, b), ExtremeOf<F>::apply(c, d));
  }
  PTO_INLINE bool saw_nan() const {
    const V sum = (sum_a_ + sum_b_) + (sum_c_ + sum_d_);
    return lanes::reduce([](auto a, auto b) { return a | b; }, sum != sum) != 0;
  }

 private:
  // A multiply-add does not share its unit with maxima, as a sum would.
  static PTO_INLINE void watch(V v, V& sum) { sum = lanes::fma(v, lanes::splat<V>(1), sum); }
  static PTO_INLINE V take(V v, V best, V& sum) {
    watch(v, sum);
    return ExtremeOf<F>::apply(v, best);
  }
  V sum_a_ = {}, sum_b_ = {}, sum_c_ = {}, sum_d_ = {};
};

// half and bfloat16_t: as signed integers the largest is the largest number, unless all are
// negative; then it is the smallest as unsigned. Minima mirror that. NaN are the integers beyond
// infinity.
template <class F, class T, int N>
class ExtremeWords : Lines<T> {
  using Signed = Vec<int16_t, 2 * N>;
  using Unsigned = Vec<uint16_t, 2 * N>;
  static constexpr bool kIsMax = F::kStart == kLowest;
  static constexpr int kInfinity = kSame<T, half> ? 0x7c00 : 0x7f80;

 public:
  explicit PTO_INLINE ExtremeWords(Lines<T> lines) : Lines<T>(lines) {}
  PTO_INLINE Vec<float, N> operator()(int line) {
    const uint16_t* words = reinterpret_cast<const uint16_t*>(this->from + line * this->stride);
    const int count = this->length;
    // Minus infinity of a maximum, plus infinity of a minimum.
    const auto start = lanes::splat<Unsigned>(uint16_t(kIsMax ? kInfinity | 0x8000 : kInfinity));
    Signed high = (Signed)start;
    Unsigned low = start, top = start;
    int i = 0;
    for (; i + 2 * N <= count; i += 2 * N) take(lanes::load<2 * N>(words + i), high, low, top);
    if (i < count) {
      const int n = count - i;
      take(lanes::select(lanes::first<Unsigned>(n), lanes::load_part<2 * N>(words + i, n), start),
           high, low, top);
    }
    high_ = larger(high_, high);
    top_ = larger(top_, top);
    const auto best = kIsMax ? lanes::select(high < 0, low, (Unsigned)high)
                             : lanes::select((Signed)top < 0, top, low);
    const lanes::Halves<Unsigned> half(best);
    return ExtremeOf<F>::apply(lanes::widen<T, N>(half.low), lanes::widen<T, N>(half.high));
  }
  PTO_INLINE bool saw_nan() const {
    const auto nan = (high_ > int16_t(kInfinity)) | (top_ > uint16_t(kInfinity | 0x8000));
    return lanes::reduce([](auto a, auto b) { return a | b; }, Signed(nan)) != 0;
  }

 private:
  template <class V>
  static PTO_INLINE V larger(V a, V b) {
    return a > b ? a : b;
  }
  static PTO_INLINE void take(Unsigned v, Signed& high, Unsigned& low, Unsigned& top) {
    high = larger((Signed)v, high);
    low = v < low ? v : low;
    top = larger(v, top);
  }
  Signed high_ = lanes::splat<Signed>(0);
  Unsigned top_ = {};
};

template <class F, class C, class T>
constexpr bool kHasExtremes = lanes::kHasFma&& kIsExtreme<F> &&
                              (kSame<T, float> ||
                               ((kSame<T, half> || kSame<T, bfloat16_t>)&&kSame<C, float>));

}  // namespace detail
PTO_NAMESPACE_END
