// SPDX-License-Identifier: Apache-2.0
// Concat: puts tiles side by side: concatenated, interleaved, and taken apart again.
//
//     TCONCAT(d, a, b);                  // row i: a's columns, then b's
//     TCONCAT(d, a, b, aIdx, bIdx);      // row i: the first aIdx[i, 0] bytes' worth, then b's
//     TINTERLEAVE(d1, d0, s1, s0);       // s0[0] s1[0] s0[1] ...: the first half to d0
//     TDEINTERLEAVE(d1, d0, s1, s0);     // back: even elements of s0, s1 to d0, odd ones to d1
//
// Invariant: TCONCAT writes the valid region of its destination, as far as the sources reach; with
// two sources the others write that of d0, TDEINTERLEAVE of one what comes of its valid region. A
// destination may be a source.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/shuffle.hpp"
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

template <class D, class... S>
constexpr bool check_side_by_side() {
  static_assert(
      (kSame<typename D::DType, typename S::DType> && ...),
      "TCONCAT, T(DE)INTERLEAVE: every tile must have the same element type; convert with TCVT");
  static_assert(kIsRows<D, S...>,
                "TCONCAT, T(DE)INTERLEAVE: tiles must be row-major and unboxed; TMOV to an ND "
                "tile first");
  return check_rows<D, S...>();
}

// Moves b first: where b is the destination itself, a would overwrite it.
template <class T>
PTO_INLINE void concat_row(T* d, const T* a, int count_a, const T* b, int count_b, int room) {
  const int n = count_a < room ? count_a : room;
  const int m = count_b < room - n ? count_b : room - n;
  if (m > 0) __builtin_memmove(static_cast<void*>(d + n), b, size_t(m) * sizeof(T));
  if (n > 0 && d != a) __builtin_memmove(static_cast<void*>(d), a, size_t(n) * sizeof(T));
}

// Counts the elements of a row that an index names in bytes of the index's own type, as the
// simulator divides.
template <class I>
PTO_INLINE int elements_of_index(const I& index, int r, int most) {
  using T = typename I::DType;
  static_assert(!kIsFloat<T> && kSame<T, Raw<T>>,
                "TCONCAT: indices must be integers; convert with TCVT");
  const int64_t n = int64_t(index.GetElement(r, 0)) / int64_t(sizeof(T));
  return n < 0 ? 0 : n > most ? most : int(n);
}

template <class D, class A, class B, class AI, class BI>
PTO_INLINE void concat_indexed(D& d, const A& a, const B& b, const AI& a_index, const BI& b_index) {
  static_assert(check_side_by_side<D, A, B>() && check_rows<D, AI, BI>());
  for (int r = 0; r < d.GetValidRow(); ++r)
    concat_row(d.data() + D::Offset(r, 0), a.data() + A::Offset(r, 0),
               elements_of_index(a_index, r, a.GetValidCol()), b.data() + B::Offset(r, 0),
               elements_of_index(b_index, r, b.GetValidCol()), d.GetValidCol());
}

// Copies a row of S into a tile of its own, since a destination may overlap the source.
template <class S>
struct RowCopy {
  using T = typename S::DType;
  Tile<TileType::Vec, T, 1, S::Cols> row;
  PTO_INLINE const T* take(const S& s, int r) {
    const size_t bytes = size_t(s.GetValidCol()) * sizeof(T);
    __builtin_memcpy(static_cast<void*>(row.data()), s.data() + S::Offset(r, 0), bytes);
    return row.data();
  }
};

// Writes elements first to last of the stream a[0] b[0] a[1] ...; first is even.
template <class T>
PTO_INLINE void interleave_row(T* d, const T* a, const T* b, int first, int last) {
  using R = Raw<T>;
  constexpr int N = kVectorBytes / int(sizeof(R));
  R* to = reinterpret_cast<R*>(d);
  const auto *x = reinterpret_cast<const R*>(a), *y = reinterpret_cast<const R*>(b);
  int i = first;
  for (; i + 2 * N <= last; i += 2 * N, to += 2 * N) {
    const auto p = lanes::load<N>(x + i / 2), q = lanes::load<N>(y + i / 2);
    lanes::store<N>(to, lanes::zip_low(p, q));
    lanes::store<N>(to + N, lanes::zip_high(p, q));
  }
  for (; i < last; ++i, ++to) {
    const R* const from = i & 1 ? y : x;  // by name: g++'s pointer checks misread (c ? y : x)[k]
    *to = from[i / 2];
  }
}

// Moves the even elements of s to even, the odd ones to odd.
template <class T>
PTO_INLINE void deinterleave_row(T* even, T* odd, const T* s, int count) {
  using R = Raw<T>;
  constexpr int N = kVectorBytes / int(sizeof(R));
  const auto* from = reinterpret_cast<const R*>(s);
  auto *p = reinterpret_cast<R*>(even), *q = reinterpret_cast<R*>(odd);
  int i = 0;
  for (; i + 2 * N <= count; i += 2 * N) {
    const auto low = lanes::load<N>(from + i), high = lanes::load<N>(from + i + N);
    lanes::store<N>(p + i / 2, lanes::unzip_even(low, high));
    lanes::store<N>(q + i / 2, lanes::unzip_odd(low, high));
  }
  for (; i < count; ++i) {
    R* const to = i & 1 ? q : p;  // by name, as above
    to[i / 2] = from[i];
  }
}

}  // namespace detail

template <class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCONCAT(D& d, const A& a, const B& b, const X&...) {
  static_assert(detail::check_side_by_side<D, A, B>());
  PTO_INSTRUCTION(TCONCAT, "d, a, b", out(d), in(a, b));
  PTO_IF_CHECKED(const int all = a.GetValidCol() + b.GetValidCol();
                 (checked::require_covered<true, false>("TCONCAT", "d, a, b", d, a, b));
                 checked::require_filled("TCONCAT", "d, a, b", 1, d, d.GetValidRow(),
                                         all < D::Cols ? all : D::Cols);)
  for (int r = 0; r < d.GetValidRow(); ++r)
    detail::concat_row(d.data() + D::Offset(r, 0), a.data() + A::Offset(r, 0), a.GetValidCol(),
                       b.data() + B::Offset(r, 0), b.GetValidCol(), d.GetValidCol());
  return {};
}
template <class D, class A, class B, class AI, class BI, class... X,
          typename Enable<kIsTile<AI> && kIsTile<BI> && (!kIsTile<X> && ... && true)>::type = 0>
PTO_INLINE RecordEvent TCONCAT(D& d, const A& a, const B& b, const AI& aIdx, const BI& bIdx,
                               const X&...) {
  PTO_INSTRUCTION(TCONCAT, "d, a, b, aIdx, bIdx", out(d), in(a, b, aIdx, bIdx));
  PTO_IF_CHECKED((checked::require_covered<true, false>("TCONCAT", "d, a, b, aIdx, bIdx", d, a, b,
                                                        aIdx, bIdx));)
  detail::concat_indexed(d, a, b, aIdx, bIdx);
  return {};
}
// Sets dIdx[i, 0] to aIdx[i, 0] + bIdx[i, 0].
template <class D, class A, class B, class DI, class AI, class BI, class... X,
          typename Enable<kIsTile<DI> && kIsTile<AI> && kIsTile<BI>>::type = 0>
PTO_INLINE RecordEvent TCONCAT(D& d, const A& a, const B& b, DI& dIdx, const AI& aIdx,
                               const BI& bIdx, const X&...) {
  PTO_INSTRUCTION(TCONCAT, "d, a, b, dIdx, aIdx, bIdx", out(d), in(a, b), out(dIdx),
                  in(aIdx, bIdx));
  PTO_IF_CHECKED((checked::require_covered<true, false>("TCONCAT", "d, a, b, dIdx, aIdx, bIdx", d,
                                                        a, b, aIdx, bIdx));
                 checked::require_rows("TCONCAT", "d, a, b, dIdx, aIdx, bIdx", 2, dIdx, d);)
  static_assert(check_rows<D, DI>());
  detail::concat_indexed(d, a, b, aIdx, bIdx);
  for (int r = 0; r < d.GetValidRow(); ++r)
    dIdx.SetElement(r, 0, typename DI::DType(aIdx.GetElement(r, 0) + bIdx.GetElement(r, 0)));
  return {};
}

// The valid region is d0's, the same in every tile; its columns are even.
template <class D1, class D0, class S1, class S0, class... X>
PTO_INLINE RecordEvent TINTERLEAVE(D1& d1, D0& d0, const S1& s1, const S0& s0, const X&...) {
  static_assert(detail::check_side_by_side<D0, D1, S1, S0>());
  PTO_INSTRUCTION(TINTERLEAVE, "d1, d0, s1, s0", out(d1, d0), in(s1, s0));
  PTO_IF_CHECKED(checked::require_covered("TINTERLEAVE", "d1, d0, s1, s0", d0, s1, s0);
                 checked::require_filled("TINTERLEAVE", "d1, d0, s1, s0", 1, d1, d0.GetValidRow(),
                                         d0.GetValidCol());)
  using T = typename D0::DType;
  static_assert(
      S0::Cols >= D0::Cols && S1::Cols >= D0::Cols && D1::Cols >= D0::Cols,
      "TINTERLEAVE: every tile must have the columns of d0; limit the valid region instead");
  detail::RowCopy<S0> a;
  detail::RowCopy<S1> b;
  const int cols = d0.GetValidCol();
  for (int r = 0; r < d0.GetValidRow(); ++r) {
    const T* x = a.take(s0, r);
    const T* y = b.take(s1, r);
    detail::interleave_row(d0.data() + D0::Offset(r, 0), x, y, 0, cols);
    detail::interleave_row(d1.data() + D1::Offset(r, 0), x + cols / 2, y + cols / 2, 0, cols);
  }
  return {};
}

template <class D1, class D0, class S1, class S0, class... X>
PTO_INLINE RecordEvent TDEINTERLEAVE(D1& d1, D0& d0, const S1& s1, const S0& s0, const X&...) {
  static_assert(detail::check_side_by_side<D0, D1, S1, S0>());
  PTO_INSTRUCTION(TDEINTERLEAVE, "d1, d0, s1, s0", out(d1, d0), in(s1, s0));
  PTO_IF_CHECKED(checked::require_covered("TDEINTERLEAVE", "d1, d0, s1, s0", d0, s1, s0);
                 checked::require_filled("TDEINTERLEAVE", "d1, d0, s1, s0", 1, d1, d0.GetValidRow(),
                                         d0.GetValidCol());)
  using T = typename D0::DType;
  static_assert(
      S0::Cols >= D0::Cols && S1::Cols >= D0::Cols && D1::Cols >= D0::Cols,
      "TDEINTERLEAVE: every tile must have the columns of d0; limit the valid region instead");
  detail::RowCopy<S0> a;
  detail::RowCopy<S1> b;
  const int cols = d0.GetValidCol(), half = cols / 2;
  for (int r = 0; r < d0.GetValidRow(); ++r) {
    const T* x = a.take(s0, r);
    const T* y = b.take(s1, r);
    T *even = d0.data() + D0::Offset(r, 0), *odd = d1.data() + D1::Offset(r, 0);
    detail::deinterleave_row(even, odd, x, cols);
    detail::deinterleave_row(even + half, odd + half, y, cols);
  }
  return {};
}
// Takes apart one source: each destination gets half as many columns as s has valid ones.
template <class D1, class D0, class S>
PTO_INLINE RecordEvent TDEINTERLEAVE(D1& d1, D0& d0, const S& s) {
  static_assert(detail::check_side_by_side<S, D0, D1>());
  PTO_ENTER(TDEINTERLEAVE, "d1, d0, s", out(d1, d0), in(s));
  PTO_IF_CHECKED(checked::require_filled("TDEINTERLEAVE", "d1, d0, s", 1, d1, s.GetValidRow(),
                                         s.GetValidCol() / 2);
                 checked::require_filled("TDEINTERLEAVE", "d1, d0, s", 2, d0, s.GetValidRow(),
                                         (s.GetValidCol() + 1) / 2);)
  static_assert(2 * D0::Cols >= S::Cols && 2 * D1::Cols >= S::Cols,
                "TDEINTERLEAVE: each destination must hold half of the source's columns; give it "
                "that many Cols");
  detail::RowCopy<S> a;
  const int cols = s.GetValidCol();
  for (int r = 0; r < s.GetValidRow(); ++r)
    detail::deinterleave_row(d0.data() + D0::Offset(r, 0), d1.data() + D1::Offset(r, 0),
                             a.take(s, r), cols);
  return {};
}

PTO_NAMESPACE_END
