// SPDX-License-Identifier: Apache-2.0
// Expand: broadcasts a column along the rows or a row along the columns, alone and combined.
//
//     TROWEXPAND(d, s);            // d[i, j] = s[i, 0]
//     TROWEXPANDDIV(d, a, s);      // d[i, j] = a[i, j] / s[i, 0]; also TROWEXPANDDIV(d, s, a)
//     TCOLEXPANDMUL(d, a, b);      // d[i, j] = a[i, j] * b[0, j]
//
// Invariant: the valid columns tell which operand of TROWEXPAND... is expanded; Cols may differ. It
// is a column (one valid column), or a row-major tile of 32 bytes per row, whose element j mod
// (32 / sizeof(T)) goes to column j. A destination may be an operand, the row of TCOLEXPAND...
// included.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

// Maps one row of a row-major destination: f on its lines.
template <class F, class D, class... S>
PTO_INLINE void map_row(F f, D& d, int row, const S*... s) {
  constexpr int N = kTileLanes<D>;
  static_assert(kIsRows<D>,
                "expansion: the destination must be row-major and not boxed; lay it out with TMOV "
                "afterwards");
  if constexpr (kIsFull<D> && kIsMicro<D>)
    map_unrolled<N, D::Numel / N>(f, d.data(), s...);
  else
    map_line<N>(f, d.GetValidCol(), d.data() + D::Offset(row, 0), s...);
}

template <class D>
constexpr int kBlock = 32 / int(sizeof(typename D::DType));

// True where an expanded operand gives a row a block of 32 bytes over and over, not one value.
template <class S>
constexpr bool kIsBlock = S::isRowMajor&& S::ValidCol == kBlock<S>;

// Returns a row of an expanded operand: its one value, or its columns over and over.
template <class S, class V>
PTO_INLINE V row_vector(const S& s, int row, int first) {
  if constexpr (kIsBlock<S> || S::ValidCol < 0) {
    const int period = s.GetValidCol() > 0 ? s.GetValidCol() : 1;
    V v = {};
    for (int i = 0; i < kCount<V>; ++i) v[i] = to_compute(s.GetElement(row, (first + i) % period));
    return v;
  } else {
    return lanes::splat<V>(to_compute(s.GetElement(row, 0)));
  }
}

// True for an operand that may have the destination's valid columns, as far as types tell.
template <class D, class S>
constexpr bool kMayBeWhole = kIsRows<S> &&
                             (D::ValidCol == S::ValidCol || D::ValidCol < 0 || S::ValidCol < 0);
template <class D, class S>
constexpr bool kIsWhole = kMayBeWhole<D, S>&& D::ValidCol == S::ValidCol&& D::ValidCol >= 0;

// True for an operand that may be expanded, as far as types tell.
template <class S>
constexpr bool kMayBeExpanded = S::ValidCol <= 1 || kIsBlock<S>;

// Maps one row with a pattern of several vectors, over and over.
template <int Patterns, class F, class T, class V>
PTO_INLINE void map_patterns(F f, int length, T* d, const T* s, const V (&pattern)[Patterns]) {
  constexpr int N = kCount<V>;
  for (int c = 0, k = 0; c < length; c += N, k = (k + 1) % Patterns) {
    const int n = length - c < N ? length - c : N;
    lanes::store_part<N>(d + c, f(lanes::load_part<N>(s + c, n), pattern[k]), n);
  }
}

template <class F, bool WholeFirst, class D, class W, class E>
PTO_INLINE void expand_rows(D& d, const W& whole, const E& expanded) {
  constexpr int N = kTileLanes<D>;
  constexpr int kPatterns = kIsBlock<E> && kBlock < E >> N ? kBlock<E> / N : 1;
  using V = Vec<Compute<typename D::DType>, N>;
  const auto combine = [](V x, V row) {
    if constexpr (WholeFirst)
      return evaluate<F>(x, row);
    else
      return evaluate<F>(row, x);
  };
  PTO_IF_CHECKED(checked::require_expanded(expanded.GetValidCol(), kBlock<E>);)
  // Takes as many different vectors as the columns of the expanded operand make, at run time.
  const bool is_endless = E::ValidCol < 0 && expanded.GetValidCol() > 1;
  for (int r = 0; r < d.GetValidRow(); ++r) {
    const auto* s = whole.data() + W::Offset(r, 0);
    auto* to = d.data() + D::Offset(r, 0);
    if (is_endless) {
      for (int c = 0; c < d.GetValidCol(); c += N) {
        const int n = d.GetValidCol() - c < N ? d.GetValidCol() - c : N;
        const V row = row_vector<E, V>(expanded, r, c);
        lanes::store_part<N>(to + c, combine(lanes::load_part<N>(s + c, n), row), n);
      }
    } else if constexpr (kPatterns == 1) {
      const V row = row_vector<E, V>(expanded, r, 0);
      map_row([row, combine](V x) { return combine(x, row); }, d, r, s);
    } else {
      V pattern[kPatterns];
      for (int k = 0; k < kPatterns; ++k) pattern[k] = row_vector<E, V>(expanded, r, k * N);
      map_patterns<kPatterns>(combine, d.GetValidCol(), to, s, pattern);
    }
  }
}

// Expands the operand with other valid columns than the destination, the second one if neither has;
// decides at run time where types do not.
template <class F, class D, class A, class B>
PTO_INLINE void expand_one(D& d, const A& a, const B& b) {
  constexpr bool kMayA = kMayBeWhole<D, A>, kMayB = kMayBeWhole<D, B>;
  static_assert(kMayA || kMayB || Rules::kTakesOtherShapes,
                "TROWEXPAND...: one operand must have the destination's valid columns, row-major "
                "and without boxes; the other is a column");
  static_assert(kMayBeExpanded<A> || kMayBeExpanded<B> || Rules::kTakesOtherShapes,
                "TROWEXPAND...: the expanded operand must have one valid column, or 32 bytes of "
                "them row-major; limit its valid columns");
  if constexpr (kMayA && kMayB && !kIsWhole<D, A>) {
    if (a.GetValidCol() == d.GetValidCol())
      expand_rows<F, true>(d, a, b);
    else
      expand_rows<F, false>(d, b, a);
  } else if constexpr (kMayA || kMayB ? !kMayA || (kMayB && kIsBlock<A> && !kIsBlock<B>)
                                      : B::isRowMajor && B::Cols > A::Cols) {
    expand_rows<F, false>(d, b, a);
  } else {
    expand_rows<F, true>(d, a, b);
  }
}

// Rows of up to this many bytes pass whole blocks of columns; longer ones go row by row, since a
// block of them would touch one page per row.
constexpr int kBlockedRow = 2048;

// Keeps Steps vectors of E from column c on, of which n lanes count, in registers, and stores f(row
// vector, row, column) in every row.
template <int N, int Steps, class E, class F, class D>
PTO_INLINE void expand_block(F f, D& d, const E* row, int c, int n) {
  Vec<Compute<E>, N> kept[Steps];
  E* to = reinterpret_cast<E*>(d.data()) + c;
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i)
    kept[i] = n < N ? lanes::load_part<N>(row + c, n) : lanes::load<N>(row + c + i * N);
  for (int r = 0; r < d.GetValidRow(); ++r) {
    PTO_UNROLL
    for (int i = 0; i < Steps; ++i) {
      if (n < N)
        lanes::store_part<N>(to + D::Offset(r, 0), f(kept[i], r, c, n), n);
      else
        lanes::store<N>(to + D::Offset(r, 0) + i * N, f(kept[i], r, c + i * N, n));
    }
  }
}
template <int N, class E, class F, class D>
PTO_INLINE void expand_columns(F f, D& d, const E* row) {
  const int cols = d.GetValidCol();
  int c = 0;
  for (; c + 4 * N <= cols; c += 4 * N) expand_block<N, 4>(f, d, row, c, N);
  for (; c + N <= cols; c += N) expand_block<N, 1>(f, d, row, c, N);
  if (c < cols) expand_block<N, 1>(f, d, row, c, cols - c);
}

template <class D>
constexpr bool kExpandsInBlocks =
    kIsRows<D> &&
    !(kIsFull<D> && kIsMicro<D>)&&D::Cols * int(sizeof(typename D::DType)) <= kBlockedRow;

// True where a row of S has all that a row of D needs, as far as types tell.
template <class D, class S>
constexpr bool kCoversColumns = kIsRows<S> && (Rules::kTakesOtherShapes || D::ValidCol < 0 ||
                                               S::ValidCol < 0 || D::ValidCol <= S::ValidCol);

template <class F, class D, class A, class B>
PTO_INLINE void combine_columns(D& d, const A& a, const B& b) {
  if constexpr (kExpandsInBlocks<D>) {
    constexpr int N = kTileLanes<D>;
    const auto* from = a.data();
    expand_columns<N>(
        [from](auto row, int r, int c, int n) {
          const auto* s = from + A::Offset(r, c);
          return evaluate<F>(n < N ? lanes::load_part<N>(s, n) : lanes::load<N>(s), row);
        },
        d, b.data());
  } else {
    // The first row last: where d is b, the others still read it.
    for (int r = d.GetValidRow() - 1; r >= 0; --r)
      map_row(Evaluate<F>{}, d, r, a.data() + A::Offset(r, 0), b.data());
  }
}

}  // namespace detail

template <class D, class S, class... X>
PTO_INLINE RecordEvent TROWEXPAND(D& d, const S& s, const X&...) {
  static_assert(check_rows<D, S>() && check_numbers<D>());
  PTO_INSTRUCTION(TROWEXPAND, "d, s", out(d), in(s));
  PTO_IF_CHECKED(checked::require_covered<true, false>("TROWEXPAND", "d, s", d, s);)
  using V = Vec<Compute<typename D::DType>, kTileLanes<D>>;
  for (int r = 0; r < d.GetValidRow(); ++r) {
    const V value = lanes::splat<V>(to_compute(s.GetElement(r, 0)));
    detail::map_row([value] { return value; }, d, r);
  }
  return {};
}

template <class D, class S, class... X>
PTO_INLINE RecordEvent TCOLEXPAND(D& d, const S& s, const X&...) {
  static_assert(detail::kCoversColumns<D, S>,
                "TCOLEXPAND: the source must be a row-major row with the destination's valid "
                "columns; limit the destination's");
  static_assert(kSame<typename D::DType, typename S::DType>,
                "TCOLEXPAND: both tiles must have the same element type; convert with TCVT");
  static_assert(check_numbers<D>());
  PTO_INSTRUCTION(TCOLEXPAND, "d, s", out(d), in(s));
  PTO_IF_CHECKED(checked::require_covered<false, true>("TCOLEXPAND", "d, s", d, s);)
  if constexpr (detail::kExpandsInBlocks<D>) {
    using Word = Raw<typename D::DType>;  // as bits, nothing is converted
    detail::expand_columns<kVectorBytes / int(sizeof(Word))>(
        [](auto row, int, int, int) { return row; }, d, reinterpret_cast<const Word*>(s.data()));
  } else {
    for (int r = 0; r < d.GetValidRow(); ++r)
      detail::map_row([](auto x) { return x; }, d, r, s.data());
  }
  return {};
}

#define PTO_ROW_EXPAND(M, of)                                                      \
  template <class D, class A, class B, class... X>                                 \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, const X&...) {            \
    static_assert(check_types<lanes::of##_value, D, A, B>());                      \
    static_assert(check_rows<D, A, B>());                                          \
    PTO_INSTRUCTION(M, "d, a, b", out(d), in(a, b));                               \
    PTO_IF_CHECKED(checked::require_covered<true, false>(#M, "d, a, b", d, a, b);) \
    detail::expand_one<lanes::of##_value>(d, a, b);                                \
    return {};                                                                     \
  }
#define PTO_COL_EXPAND(M, of)                                                                    \
  template <class D, class A, class B, class... X>                                               \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, const X&...) {                          \
    static_assert(check_types<lanes::of##_value, D, A, B>() && check_rows<D, A>());              \
    static_assert(detail::kCoversColumns<D, A> && detail::kCoversColumns<D, B>,                  \
                  "TCOLEXPAND...: every operand must be row-major with the destination's valid " \
                  "columns; transpose with TTRANS or limit the destination's");                  \
    PTO_INSTRUCTION(M, "d, a, b", out(d), in(a, b));                                             \
    PTO_IF_CHECKED(checked::require_covered<false, true>(#M, "d, a, b", d, a, b);)               \
    PTO_IF_CHECKED(checked::require_covered(#M, "d, a, b", d, a);)                               \
    detail::combine_columns<lanes::of##_value>(d, a, b);                                         \
    return {};                                                                                   \
  }
#include "pto/isa/instructions.def"

PTO_NAMESPACE_END
