// SPDX-License-Identifier: Apache-2.0
// Reductions along rows and columns.
//
//     TROWSUM(d, s, tmp);     // d[i, 0] = sum of row i;  TROWMAX, TROWMIN, TROWPROD
//     TCOLSUM(d, s);          // d[0, j] = sum of column j
//
// Invariant: the order of a reduction depends on the tile's shape and valid region only: vectors
// first, pairwise, then their lanes by halves. f16 and bf16 accumulate in float, and a row's result
// may be wider than its elements. With -DPTO_REDUCTION_ORDER_SEQUENTIAL elements combine one after
// another from the left or the top, slowly, for bit comparisons with the public simulator.
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

#if defined(PTO_REDUCTION_ORDER_SEQUENTIAL)
constexpr bool kIsSequential = true;
#else
constexpr bool kIsSequential = false;
#endif

// Steps vectors, combined pairwise: the longest chain is log2(Steps).
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

template <class F, class C, int N, class T>
PTO_INLINE C reduce_line(const T* s, int length) {
  using V = Vec<C, N>;
  const V start = lanes::splat<V>(identity<C>(F::kStart));
  V a = start, b = start, c = start, d = start;
  int i = 0;
  for (; i + 4 * N <= length; i += 4 * N) {
    a = evaluate<F>(a, lanes::convert<C>(lanes::load<N>(s + i)));
    b = evaluate<F>(b, lanes::convert<C>(lanes::load<N>(s + i + N)));
    c = evaluate<F>(c, lanes::convert<C>(lanes::load<N>(s + i + 2 * N)));
    d = evaluate<F>(d, lanes::convert<C>(lanes::load<N>(s + i + 3 * N)));
  }
  for (; i + N <= length; i += N) a = evaluate<F>(a, lanes::convert<C>(lanes::load<N>(s + i)));
  if (i < length) {
    const int n = length - i;
    b = evaluate<F>(b, lanes::select(lanes::first<V>(n),
                                     lanes::convert<C>(lanes::load_part<N>(s + i, n)), start));
  }
  return lanes::reduce(Evaluate<F>{}, evaluate<F>(evaluate<F>(a, b), evaluate<F>(c, d)));
}

template <class D, class S>
constexpr bool kWidens = sizeof(typename S::DType) == 2 && sizeof(typename D::DType) == 4 &&
                         ((kSame<typename D::DType, float> && kIsFloat<typename S::DType>) ||
                          (kSame<typename D::DType, int32_t> && kSame<typename S::DType, int16_t>));

template <class D, class S>
constexpr bool check_reduction() {
  static_assert(!D::isBoxedLayout && !S::isBoxedLayout,
                "reduction: tiles must not be boxed; TMOV to an ND tile first");
  return true;
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
    for (int r = 0; r < s.GetValidRow(); ++r) {
      C value;
      if constexpr (S::isRowMajor && !kIsSequential) {
        value = reduce_line<F, C, N>(s.data() + r * S::RowStride, s.GetValidCol());
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

}  // namespace detail

#define PTO_REDUCE(row, col, part, op, value, start, numpy, types) \
  template <class D, class S, class... X>                          \
  PTO_INLINE RecordEvent row(D& d, const S& s, const X&...) {      \
    static_assert(detail::check_reduction<D, S>());                \
    static_assert(check_trailing<X...>());                         \
    PTO_ENTER(row, "d, s", out(d), in(s));                         \
    detail::reduce_rows<lanes::row##_value>(d, s);                 \
    return {};                                                     \
  }                                                                \
  template <class D, class S, class... X>                          \
  PTO_INLINE RecordEvent col(D& d, const S& s, const X&...) {      \
    static_assert(detail::check_reduction<D, S>());                \
    static_assert(check_trailing<X...>());                         \
    PTO_ENTER(col, "d, s", out(d), in(s));                         \
    detail::reduce_cols<lanes::row##_value>(d, s);                 \
    return {};                                                     \
  }
#include "pto/isa/instructions.def"

PTO_NAMESPACE_END
