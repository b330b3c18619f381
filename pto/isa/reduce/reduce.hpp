// SPDX-License-Identifier: Apache-2.0
// Reduce: reductions along rows and columns.
//
//     TROWSUM(d, s, tmp);     // d[i, 0] = sum of row i;  TROWMAX, TROWMIN, TROWPROD
//     TCOLSUM(d, s);          // d[0, j] = sum of column j
//
// f16 and bf16 accumulate in float, and a row's result may be wider than its elements. A sum's
// error grows with the chain of additions that an element goes through: n / (4 kLanes) and few more
// for a row of n elements, its length for a column. With -DPTO_REDUCTION_ORDER_SEQUENTIAL elements
// combine one after another from the left or the top, slowly, for bit comparisons with the public
// simulator.
//
// Invariant: the order of a reduction depends on the tile's shape and valid region only: vectors
// first, pairwise, then their lanes by halves.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/reduce/reduce_lines.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {
#define PTO_REDUCE(row, col, part, op, value, start, numpy, types) \
  struct row##_value {                                             \
    static constexpr ElementSet kTypes = types;                    \
    static constexpr Identity kStart = start;                      \
    template <class V>                                             \
    static PTO_INLINE V apply(V a, V b) {                          \
      return value;                                                \
    }                                                              \
  };
#include "pto/isa/instructions.def"
}  // namespace lanes

namespace detail {

#if defined(PTO_REDUCTION_ORDER_SEQUENTIAL)
constexpr bool kIsSequential = true;
#else
constexpr bool kIsSequential = false;
#endif

// True where a comes before b in the order of a maximum or minimum F: NaN comes first.
template <class F, class V>
PTO_INLINE lanes::MaskOf<V> precedes(V a, V b) {
  const lanes::MaskOf<V> better = F::kStart == kLowest ? a > b : a < b;
  if constexpr (kIsFloat<LaneOf<V>>)
    return better | ((a != a) & (b == b));
  else
    return better;
}

// Combines Steps vectors pairwise: the longest chain is log2(Steps).
template <class F, class C, int N, int Steps, class T>
PTO_INLINE Vec<C, N> reduce_vectors(const T* s) {
  if constexpr (Steps == 1) {
    return lanes::convert<C>(lanes::load<N>(s));
  } else {
    constexpr int kLeft = Steps / 2;
    return evaluate<F>(reduce_vectors<F, C, N, kLeft>(s),
                       reduce_vectors<F, C, N, Steps - kLeft>(s + kLeft * N));
  }
}

template <class D, class S>
constexpr bool kWidens = sizeof(typename S::DType) == 2 && sizeof(typename D::DType) == 4 &&
                         ((kSame<typename D::DType, float> && kIsFloat<typename S::DType>) ||
                          (kSame<typename D::DType, int32_t> && kSame<typename S::DType, int16_t>));

template <class D, class S>
constexpr bool check_reduction() {
  static_assert(!D::isBoxedLayout && !S::isBoxedLayout,
                "reduction: tiles must not be boxed; TMOV to an ND tile first");
  static_assert(is_in<typename S::DType>(kOrdered),
                "reduction: a bool is no number; reduce tiles of uint8_t");
  return check_numbers<S>();
}

// Reduces rows r .. r + N - 1 of a row-major tile.
template <class F, class C, int N, class D, class S>
PTO_INLINE void reduce_group(D& d, const S& s, int r) {
  using T = typename S::DType;
  const Lines<T> rows{s.data(), S::RowStride, s.GetValidCol()};
  Vec<C, N> values;
  bool is_exact = false;
  if constexpr (kHasExtremes<F, C, T>) {
    typename Choose<kSame<T, float>, ExtremeLines<F, float, N>, ExtremeWords<F, T, N>>::type lines(
        rows);
    values = reduce_lines<ExtremeOf<F>, N, N>(lines, r);
    is_exact = !lines.saw_nan();
  }
  if (!is_exact) {
    // Read anew: else the compiler keeps all elements in memory for this rare case.
    if constexpr (kHasExtremes<F, C, T>) asm volatile("" ::: "memory");
    UsualLines<F, C, T, N> lines{rows};
    values = reduce_lines<F, N, N>(lines, r);
  }
  for (int i = 0; i < N; ++i) lanes::store_scalar(d.data() + D::Offset(r + i, 0), values[i]);
}

template <class F, class D, class S>
PTO_INLINE void reduce_rows(D& d, const S& s) {
  using C = Compute<typename D::DType>;
  constexpr int N = kTileLanes<S>;
  static_assert(kSame<typename D::DType, typename S::DType> || kWidens<D, S>,
                "row reduction: the destination must have the source's element type, or be float "
                "for half and bfloat16_t, int32_t for int16_t; use TCVT");
  static_assert(D::Rows >= S::Rows,
                "row reduction: the destination needs a row for every row of the source; give it "
                "as many Rows");
  if constexpr (S::isRowMajor && kIsFull<S> && S::Rows == 1 && kIsMicro<S> && !kIsSequential) {
    const auto v = reduce_vectors<F, C, N, S::Numel / N>(s.data());
    lanes::store_scalar(d.data(), lanes::reduce(Evaluate<F>{}, v));
  } else {
    int r = 0;
    if constexpr (S::isRowMajor && !kIsSequential && S::Rows >= N)
      for (; r + N <= s.GetValidRow(); r += N) reduce_group<F, C, N>(d, s, r);
    // No loop where groups take all rows: the compiler warns of one that never runs.
    const int rows = S::isRowMajor && S::ValidRow % N == 0 && !kIsSequential ? 0 : s.GetValidRow();
    for (; r < rows; ++r) {
      C value;
      if constexpr (S::isRowMajor && !kIsSequential) {
        value = lanes::reduce(Evaluate<F>{},
                              reduce_line<F, C, N>(s.data() + r * S::RowStride, s.GetValidCol()));
      } else {
        using V = Vec<C, 2>;
        V total = lanes::splat<V>(identity<C>(F::kStart));
        for (int c = 0; c < s.GetValidCol(); ++c)
          total = evaluate<F>(total, lanes::splat<V>(C(to_compute(s.GetElement(r, c)))));
        value = total[0];
      }
      lanes::store_scalar(d.data() + D::Offset(r, 0), value);
    }
  }
}

// Reduces Steps vectors of columns from c on, of which the first n lanes count; side by side, since
// each is one chain from the top.
template <class F, int N, int Steps, class D, class S>
PTO_INLINE void reduce_columns(D& d, const S& s, int c, int n) {
  using V = Vec<Compute<typename S::DType>, N>;
  V total[Steps];
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i) total[i] = lanes::splat<V>(identity<LaneOf<V>>(F::kStart));
  for (int r = 0; r < s.GetValidRow(); ++r) {
    const auto* from = s.data() + S::Offset(r, c);
    PTO_UNROLL
    for (int i = 0; i < Steps; ++i)
      total[i] = evaluate<F>(n < N ? lanes::load_part<N>(from, n) : lanes::load<N>(from + i * N),
                             total[i]);
  }
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i) {
    if (n < N)
      lanes::store_part<N>(d.data() + c, total[i], n);
    else
      lanes::store<N>(d.data() + c + i * N, total[i]);
  }
}

template <class F, class D, class S>
PTO_INLINE void reduce_cols(D& d, const S& s) {
  using T = typename S::DType;
  constexpr int N = kTileLanes<S>;
  static_assert(
      kSame<typename D::DType, T>,
      "column reduction: source and destination must have the same element type; use TCVT");
  static_assert(
      D::Cols >= S::Cols,
      "column reduction: the destination needs every column of the source; give it as many Cols");
  static_assert(S::isRowMajor && D::isRowMajor,
                "column reduction: tiles must be row-major; transpose with TTRANS");
  int c = 0;
  for (; c + 4 * N <= s.GetValidCol(); c += 4 * N) reduce_columns<F, N, 4>(d, s, c, N);
  for (; c + N <= s.GetValidCol(); c += N) reduce_columns<F, N, 1>(d, s, c, N);
  if (c < s.GetValidCol()) reduce_columns<F, N, 1>(d, s, c, s.GetValidCol() - c);
}

}  // namespace detail

#define PTO_REDUCE(row, col, part, op, value, start, numpy, types) \
  template <class D, class S, class... X>                          \
  PTO_INLINE RecordEvent row(D& d, const S& s, const X&...) {      \
    static_assert(detail::check_reduction<D, S>());                \
    PTO_INSTRUCTION(row, "d, s", out(d), in(s));                   \
    PTO_IF_CHECKED(checked::require_rows(#row, "d, s", 1, d, s);)  \
    detail::reduce_rows<lanes::row##_value>(d, s);                 \
    return {};                                                     \
  }                                                                \
  template <class D, class S, class... X>                          \
  PTO_INLINE RecordEvent col(D& d, const S& s, const X&...) {      \
    static_assert(detail::check_reduction<D, S>());                \
    PTO_INSTRUCTION(col, "d, s", out(d), in(s));                   \
    PTO_IF_CHECKED(checked::require_cols(#col, "d, s", 1, d, s);)  \
    detail::reduce_cols<lanes::row##_value>(d, s);                 \
    return {};                                                     \
  }
#include "pto/isa/instructions.def"

PTO_NAMESPACE_END
