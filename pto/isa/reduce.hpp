// SPDX-License-Identifier: Apache-2.0
// Reductions along rows and columns, and the PART instructions that combine partly valid tiles.
//
//     TROWSUM(d, s, tmp);     // d[i, 0] = sum of row i;  TROWMAX, TROWMIN, TROWPROD
//     TCOLSUM(d, s);          // d[0, j] = sum of column j
//     TPARTADD(d, a, b);      // a + b where both are valid, else the valid one
//
// Invariant: the order of a reduction depends on the tile's shape and valid region only: vectors
// first, pairwise, then their lanes by halves. f16 and bf16 accumulate in float.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise.hpp"

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

// Steps vectors, combined pairwise: the longest chain is log2(Steps).
template <class F, int N, int Steps, class T>
PTO_INLINE Vec<Compute<T>, N> reduce_vectors(const T* s) {
  if constexpr (Steps == 1) {
    return lanes::load<N>(s);
  } else {
    constexpr int kLeft = Steps / 2;
    return evaluate<F>(reduce_vectors<F, N, kLeft>(s),
                       reduce_vectors<F, N, Steps - kLeft>(s + kLeft * N));
  }
}

template <class F, int N, class T>
PTO_INLINE Compute<T> reduce_line(const T* s, int length) {
  using V = Vec<Compute<T>, N>;
  const V start = lanes::splat<V>(identity<Compute<T>>(F::kStart));
  V a = start, b = start, c = start, d = start;
  int i = 0;
  for (; i + 4 * N <= length; i += 4 * N) {
    a = evaluate<F>(a, lanes::load<N>(s + i));
    b = evaluate<F>(b, lanes::load<N>(s + i + N));
    c = evaluate<F>(c, lanes::load<N>(s + i + 2 * N));
    d = evaluate<F>(d, lanes::load<N>(s + i + 3 * N));
  }
  for (; i + N <= length; i += N) a = evaluate<F>(a, lanes::load<N>(s + i));
  if (i < length) {
    const int n = length - i;
    b = evaluate<F>(b, lanes::select(lanes::first<V>(n), lanes::load_part<N>(s + i, n), start));
  }
  return lanes::reduce(Evaluate<F>{}, evaluate<F>(evaluate<F>(a, b), evaluate<F>(c, d)));
}

template <class D, class S>
constexpr bool check_reduction() {
  static_assert(kSame<typename D::DType, typename S::DType>,
                "reduction: source and destination must have the same element type; use TCVT");
  static_assert(!D::isBoxedLayout && !S::isBoxedLayout,
                "reduction: tiles must not be boxed; TMOV to an ND tile first");
  return true;
}

template <class F, class D, class S>
PTO_INLINE void reduce_rows(D& d, const S& s) {
  using T = typename S::DType;
  constexpr int N = kTileLanes<S>;
  static_assert(D::Rows >= S::Rows, "row reduction: the destination needs a row for every row");
  if constexpr (S::isRowMajor && kIsFull<S> && S::Rows == 1 && kIsMicro<S>) {
    const auto v = reduce_vectors<F, N, S::Numel / N>(s.data());
    lanes::store_scalar(d.data(), lanes::reduce(Evaluate<F>{}, v));
  } else {
    for (int r = 0; r < s.GetValidRow(); ++r) {
      Compute<T> value;
      if constexpr (S::isRowMajor) {
        value = reduce_line<F, N>(s.data() + r * S::RowStride, s.GetValidCol());
      } else {
        using V = Vec<Compute<T>, 2>;
        V total = lanes::splat<V>(identity<Compute<T>>(F::kStart));
        for (int c = 0; c < s.GetValidCol(); ++c)
          total = evaluate<F>(total, lanes::splat<V>(to_compute(s.GetElement(r, c))));
        value = total[0];
      }
      lanes::store_scalar(d.data() + D::Offset(r, 0), value);
    }
  }
}

template <class F, class D, class S>
PTO_INLINE void reduce_cols(D& d, const S& s) {
  using T = typename S::DType;
  constexpr int N = kTileLanes<S>;
  static_assert(D::Cols >= S::Cols, "column reduction: the destination needs every column");
  static_assert(S::isRowMajor && D::isRowMajor,
                "column reduction: tiles must be row-major; transpose with TTRANS");
  using V = Vec<Compute<T>, N>;
  const int rows = s.GetValidRow(), cols = s.GetValidCol();
  for (int c = 0; c < cols; c += N) {
    const int n = cols - c < N ? cols - c : N;
    V total = lanes::splat<V>(identity<Compute<T>>(F::kStart));
    for (int r = 0; r < rows; ++r)
      total = evaluate<F>(total, lanes::load_part<N>(s.data() + S::Offset(r, c), n));
    lanes::store_part<N>(d.data() + c, total, n);
  }
}

// Where only one source is valid its element passes; where neither is, d keeps its own.
template <class F, class D, class A, class B>
PTO_INLINE void combine_parts(D& d, const A& a, const B& b) {
  static_assert(check_elementwise<D>());
  if constexpr (kSameLayout<D, A, B> && kIsMicro<D> && kIsFull<D> && kIsFull<A>) {
    constexpr int N = kTileLanes<D>;
    using V = Vec<Compute<typename D::DType>, N>;
    const int length = valid_lines(b) > 0 ? valid_length(b) : 0;
    PTO_UNROLL
    for (int i = 0; i < D::Numel / N; ++i) {
      const V x = lanes::load<N>(a.data() + i * N);
      const V both = evaluate<F>(x, lanes::load<N>(b.data() + i * N));
      lanes::store<N>(d.data() + i * N, lanes::select(lanes::first<V>(length - i * N), both, x));
    }
  } else {
    for (int r = 0; r < d.GetValidRow(); ++r)
      for (int c = 0; c < d.GetValidCol(); ++c) {
        const bool in_a = r < a.GetValidRow() && c < a.GetValidCol();
        const bool in_b = r < b.GetValidRow() && c < b.GetValidCol();
        using V = Vec<Compute<typename D::DType>, 2>;
        if (!in_a && !in_b) continue;
        const V x = lanes::splat<V>(to_compute(in_a ? a.GetElement(r, c) : b.GetElement(r, c)));
        const V y = lanes::splat<V>(to_compute(in_b ? b.GetElement(r, c) : a.GetElement(r, c)));
        lanes::store_scalar(d.data() + D::Offset(r, c), (in_a && in_b ? evaluate<F>(x, y) : x)[0]);
      }
  }
}

}  // namespace detail

#define PTO_REDUCE(row, col, part, op, value, start, numpy, types)         \
  template <class D, class S, class... X>                                  \
  PTO_INLINE RecordEvent row(D& d, const S& s, const X&...) {              \
    static_assert(detail::check_reduction<D, S>());                        \
    static_assert(check_trailing<X...>());                                 \
    PTO_ENTER(row, "d, s", out(d), in(s));                                 \
    detail::reduce_rows<lanes::row##_value>(d, s);                         \
    return {};                                                             \
  }                                                                        \
  template <class D, class S, class... X>                                  \
  PTO_INLINE RecordEvent col(D& d, const S& s, const X&...) {              \
    static_assert(detail::check_reduction<D, S>());                        \
    static_assert(check_trailing<X...>());                                 \
    PTO_ENTER(col, "d, s", out(d), in(s));                                 \
    detail::reduce_cols<lanes::row##_value>(d, s);                         \
    return {};                                                             \
  }                                                                        \
  template <class D, class A, class B, class... X>                         \
  PTO_INLINE RecordEvent part(D& d, const A& a, const B& b, const X&...) { \
    static_assert(check_trailing<X...>());                                 \
    PTO_ENTER(part, "d, a, b", out(d), in(a, b));                          \
    detail::combine_parts<lanes::row##_value>(d, a, b);                    \
    return {};                                                             \
  }
#include "pto/isa/instructions.def"

PTO_NAMESPACE_END
