// SPDX-License-Identifier: Apache-2.0
// Element-wise instructions: unary, binary, ternary, tile with scalar, from the table's rows.
//
//     TADD(d, a, b);
//     TEXP(d, a);
//     TMULS(d, a, 2.0f);
//     TEXPANDS(d, 1.0f);
//
// Invariant: only the destination's valid region is written; each element is computed in
// Compute<T> and rounded to T once per instruction (rows that accumulate: after each step). A
// destination may be one of the sources.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/erf.hpp"
#include "pto/isa/cpu/power.hpp"
#include "pto/isa/cpu/remainder.hpp"
#include "pto/isa/cpu/trigonometry.hpp"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/tile/tile.hpp"

PTO_NAMESPACE_BEGIN

// A row's value as a functor on vectors: M_value::apply(a, b).
namespace lanes {
#define PTO_VALUE(M, value, types, ...)         \
  struct M##_value {                            \
    static constexpr ElementSet kTypes = types; \
    template <class V>                          \
    static PTO_INLINE V apply(__VA_ARGS__) {    \
      return value;                             \
    }                                           \
  };
#define PTO_UNARY(M, op, value, numpy, types) PTO_VALUE(M, value, types, V a)
#define PTO_BINARY_ONLY(M, value, numpy, types) PTO_VALUE(M, value, types, V a, V b)
#define PTO_BINARY(M, op, value, numpy, types) PTO_BINARY_ONLY(M, value, numpy, types)
#define PTO_TERNARY(M, value, numpy, types) PTO_VALUE(M, value, types, V a, V b, V c)
#define PTO_ACCUMULATE(M, value, numpy, types) PTO_TERNARY(M, value, numpy, types)
#define PTO_LOGICAL_UNARY(...)
#define PTO_LOGICAL_BINARY(...)
#include "pto/isa/instructions.def"
#undef PTO_VALUE

// True for rows of floats whose instruction takes integers too, unlike the operation of the IR.
template <class Row>
constexpr bool kTakesIntegers =
    kSame<Row, TRECIP_value> || kSame<Row, TLOG_value> || kSame<Row, TSUBRELU_value>;
// True for accumulating rows whose product is not rounded before the sum.
template <class Row>
constexpr bool kRoundsOnce = kSame<Row, TFUSEDMULADD_value>;
}  // namespace lanes

// A functor on compute vectors. Signed integers wrap, so kArithmetic rows see them unsigned.
template <class F>
struct Evaluate {
  template <class V, class... W>
  PTO_INLINE V operator()(V a, W... b) const {
    using U = Vec<UnsignedOf<LaneOf<V>>, kCount<V>>;
    if constexpr (F::kTypes == kArithmetic && !kSame<U, V>)
      return bit_cast<V>(F::apply(bit_cast<U>(a), bit_cast<U>(b)...));
    else if constexpr (kSame<F, lanes::TSUBRELU_value> && !kSame<U, V>)  // wraps, has a sign again
      return lanes::relu(Evaluate<lanes::TSUB_value>{}(a, b...));
    else
      return F::apply(a, b...);
  }
};

namespace lanes {

// Rounds a value of compute type as T would hold it.
template <class T, class V>
PTO_INLINE V as_stored(V v) {
  if constexpr (kSame<Raw<T>, Compute<T>>)
    return v;
  else
    return widen<T, kCount<V>>(narrow<T, kCount<V>>(v));
}

// Rounds every product and sum of its values to T.
template <class T, class V>
struct Stepwise {
  V value;
  friend PTO_INLINE Stepwise operator*(Stepwise a, Stepwise b) {
    return {as_stored<T>(a.value * b.value)};
  }
  friend PTO_INLINE Stepwise operator+(Stepwise a, Stepwise b) {
    return {as_stored<T>(a.value + b.value)};
  }
  friend PTO_INLINE Stepwise relu(Stepwise a) { return {lanes::relu(a.value)}; }
};

}  // namespace lanes

// An accumulating row: half and bfloat16_t round after each of its steps, unless it rounds once.
template <class F, class T>
struct Accumulate {
  template <class V>
  PTO_INLINE V operator()(V a, V b, V c) const {
    using Steps = lanes::Stepwise<T, V>;
    if constexpr (kIsFloat<T> && sizeof(T) == 2 && !lanes::kRoundsOnce<F>)
      return F::apply(Steps{a}, Steps{b}, Steps{c}).value;
    else
      return F::apply(a, b, c);
  }
};

template <class F, class... V>
PTO_INLINE auto evaluate(V... v) {
  return Evaluate<F>{}(v...);
}

// Returns the lanes that suit every operand of an instruction.
constexpr int fewest(int n) { return n; }
template <class... I>
constexpr int fewest(int a, int b, I... rest) {
  return fewest(a < b ? a : b, rest...);
}

template <class D, class... S>
constexpr bool kSameLayout = ((kLines<S> == kLines<D> && kLineLength<S> == kLineLength<D> &&
                               S::isRowMajor == D::isRowMajor && S::SFractal == D::SFractal &&
                               S::InnerNumel == D::InnerNumel) &&
                              ...);

// True where rows (or columns) of all are contiguous, of whatever length.
template <class D, class... S>
constexpr bool kAreAllLines =
    !D::isBoxedLayout && ((!S::isBoxedLayout && S::isRowMajor == D::isRowMajor) && ...);

namespace detail {

template <int N, int Steps, class F, class T, class... S>
PTO_INLINE void map_unrolled(F f, T* d, const S*... s) {
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i) lanes::store<N>(d + i * N, f(lanes::load<N>(s + i * N)...));
}

template <int N, class F, class T, class... S>
PTO_INLINE void map_line(F f, int length, T* d, const S*... s) {
  int i = 0;
  for (; i + 4 * N <= length; i += 4 * N) map_unrolled<N, 4>(f, d + i, s + i...);
  for (; i + N <= length; i += N) map_unrolled<N, 1>(f, d + i, s + i...);
  if (i < length) {
    const int n = length - i;
    lanes::store_part<N>(d + i, f(lanes::load_part<N>(s + i, n)...), n);
  }
}

// Maps a micro-tile with a dynamic valid region: whole registers, new lanes blended into old ones.
template <int N, int Steps, class F, class T, class... S>
PTO_INLINE void map_blended(F f, int length, T* d, const S*... s) {
  PTO_UNROLL
  for (int i = 0; i < Steps; ++i) {
    const Vec<Compute<T>, N> old = lanes::load<N>(d + i * N);
    const Vec<Compute<T>, N> value = f(lanes::load<N>(s + i * N)...);
    lanes::store<N>(d + i * N,
                    lanes::select(lanes::first<Vec<Compute<T>, N>>(length - i * N), value, old));
  }
}

}  // namespace detail

// Computes d = f(s...) on d's valid region; f takes and returns vectors of Compute<T>.
template <class F, class D, class... S>
PTO_INLINE void map(F f, D& d, const S&... s) {
  constexpr int N = fewest(kTileLanes<D>, kTileLanes<S>...);
  if constexpr (Rules::kTakesOtherShapes && kAreAllLines<D, S...> && !kSameLayout<D, S...>) {
    for (int i = 0; i < valid_lines(d); ++i)
      detail::map_line<N>(f, valid_length(d), d.data() + i * kLineLength<D>,
                          s.data() + i * kLineLength<S>...);
  } else if constexpr (!kSameLayout<D, S...> || (D::isBoxedLayout && !kIsFull<D>)) {
    for (int r = 0; r < d.GetValidRow(); ++r)
      for (int c = 0; c < d.GetValidCol(); ++c)
        lanes::store_part<N>(d.data() + D::Offset(r, c),
                             f(lanes::load_part<N>(s.data() + S::Offset(r, c), 1)...), 1);
  } else if constexpr (kIsFull<D> && D::kStored % N == 0 && D::kStored / N <= 16) {
    // Written out here to save a call to inline in every instruction of a compiled region.
    PTO_UNROLL
    for (int i = 0; i < D::kStored / N; ++i)
      lanes::store<N>(d.data() + i * N, f(lanes::load<N>(s.data() + i * N)...));
  } else if constexpr (kIsFull<D>) {
    detail::map_line<N>(f, D::kStored, d.data(), s.data()...);
  } else if constexpr (kIsMicro<D> && (D::isRowMajor ? D::ValidRow : D::ValidCol) == 1) {
    detail::map_blended<N, D::Numel / N>(f, valid_length(d), d.data(), s.data()...);
  } else {
    constexpr int L = kLineLength<D>;
    for (int i = 0; i < valid_lines(d); ++i)
      detail::map_line<N>(f, valid_length(d), d.data() + i * L, s.data() + i * L...);
  }
}

template <class D, class S>
constexpr bool kSameShape = D::Rows == S::Rows&& D::Cols == S::Cols;
template <class D, class S>
constexpr bool kCoversValid = (D::ValidRow < 0 || S::ValidRow < 0 || S::ValidRow >= D::ValidRow) &&
                              (D::ValidCol < 0 || S::ValidCol < 0 || S::ValidCol >= D::ValidCol);

// Checks the rules of every element-wise instruction, each a sentence. static_assert calls it, so
// that no call remains to be inlined.
template <class D, class... S>
constexpr bool check_elementwise() {
  static_assert(Rules::kTakesOtherShapes || (kSameShape<D, S> && ...),
                "element-wise: every tile must have the same Rows x Cols; "
                "widen a vector first with TROWEXPAND or TCOLEXPAND");
  static_assert((kCoversValid<D, S> && ...),
                "element-wise: every source must be valid where the destination is; "
                "shrink the destination's valid region");
  return true;
}
// Checks that a tile's elements are numbers of their own.
template <class D>
constexpr bool check_numbers() {
  static_assert(!kIsTwin<typename D::DType>,
                "pairs of numbers are moved and converted only; convert with TCVT first");
  return true;
}
template <class F, class D, class... S>
constexpr bool check_types() {
  static_assert(check_numbers<D>());
  static_assert((kSame<typename D::DType, typename S::DType> && ...),
                "element-wise: every tile must have the same element type; convert with TCVT");
  static_assert(
      is_in<typename D::DType>(F::kTypes) || lanes::kTakesIntegers<F>,
      "element-wise: the instruction does not exist for this element type; see the dtypes "
      "column of pto/isa/instructions.def");
  return true;
}
template <class F, class... D>
constexpr bool check_row() {
  constexpr bool kAreTiles = (kIsTile<D> && ...);
  static_assert(kAreTiles,
                "element-wise: every operand is a tile; for a number use the instruction with S "
                "behind its name, such as TADDS");
  if constexpr (kAreTiles)
    return check_elementwise<D...>() && check_types<F, D...>();
  else
    return false;
}
// Checks that tiles have the rows, or the columns, of the tile over which an instruction runs, as
// far as types tell.
template <class D, class... S>
constexpr bool check_rows() {
  static_assert(Rules::kTakesOtherShapes || ((S::Rows >= D::ValidRow) && ...),
                "every tile must have the rows of the tile over which the instruction runs; limit "
                "that one's valid rows");
  return true;
}
template <class D, class... S>
constexpr bool check_columns() {
  static_assert(Rules::kTakesOtherShapes || ((S::Cols >= D::ValidCol) && ...),
                "every tile must have the columns of the tile over which the instruction runs; "
                "limit that one's valid columns");
  return true;
}
template <class... X>
constexpr bool check_trailing() {
  static_assert((kIsTrailing<X> && ...),
                "after its operands an instruction takes temporary tiles and events only; "
                "check the number of operands");
  return true;
}

// PTO_INSTRUCTION where the sources must be valid wherever the destination is.
#define PTO_EACH_ELEMENT(M, form, d, ...)            \
  PTO_INSTRUCTION(M, form, out(d), in(__VA_ARGS__)); \
  PTO_IF_CHECKED(checked::require_covered(#M, form, d, __VA_ARGS__);)

#define PTO_UNARY(M, op, value, numpy, types)               \
  template <class D, class A, class... X>                   \
  PTO_INLINE RecordEvent M(D& d, const A& a, const X&...) { \
    static_assert(check_row<lanes::M##_value, D, A>());     \
    PTO_EACH_ELEMENT(M, "d, a", d, a);                      \
    map(Evaluate<lanes::M##_value>{}, d, a);                \
    return {};                                              \
  }
#define PTO_BINARY_ONLY(M, value, numpy, types)                         \
  template <class D, class A, class B, class... X>                      \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, const X&...) { \
    static_assert(check_row<lanes::M##_value, D, A, B>());              \
    PTO_EACH_ELEMENT(M, "d, a, b", d, a, b);                            \
    map(Evaluate<lanes::M##_value>{}, d, a, b);                         \
    return {};                                                          \
  }
#define PTO_BINARY(M, op, value, numpy, types) PTO_BINARY_ONLY(M, value, numpy, types)
#define PTO_TERNARY(M, value, numpy, types)                                         \
  template <class D, class A, class B, class C, class... X>                         \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, const C& c, const X&...) { \
    static_assert(check_row<lanes::M##_value, D, A, B, C>());                       \
    PTO_EACH_ELEMENT(M, "d, a, b, c", d, a, b, c);                                  \
    map(Evaluate<lanes::M##_value>{}, d, a, b, c);                                  \
    return {};                                                                      \
  }
#define PTO_ACCUMULATE(M, value, numpy, types)                          \
  template <class D, class A, class B, class... X>                      \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, const X&...) { \
    static_assert(check_row<lanes::M##_value, D, A, B>());              \
    PTO_EACH_ELEMENT(M, "d, a, b", d, a, b);                            \
    map(Accumulate<lanes::M##_value, typename D::DType>{}, d, a, b, d); \
    return {};                                                          \
  }
#define PTO_SCALAR(M, of)                                                                        \
  template <class D, class A, class... X>                                                        \
  PTO_INLINE RecordEvent M(D& d, const A& a, typename A::DType scalar, const X&...) {            \
    static_assert(check_row<lanes::of##_value, D, A>());                                         \
    PTO_EACH_ELEMENT(M, "d, a, scalar", d, a);                                                   \
    const auto b = to_compute(scalar);                                                           \
    map([b](auto v) { return evaluate<lanes::of##_value>(v, lanes::splat<decltype(v)>(b)); }, d, \
        a);                                                                                      \
    return {};                                                                                   \
  }
#define PTO_LOGICAL_UNARY(...)
#define PTO_LOGICAL_BINARY(...)

template <class T>
PTO_INLINE Compute<T> to_compute(T scalar) {
  if constexpr (kSame<T, mask32>)
    return scalar.raw;
  else
    return Compute<T>(scalar);
}

#include "pto/isa/instructions.def"

// The public library takes a precision before the tiles; here there is one. The last two are those
// of expand.hpp.
#define PTO_PRECISION(M)                                 \
  template <auto Precision, class D, class... A>         \
  PTO_INLINE RecordEvent M(D& d, const A&... operands) { \
    return M(d, operands...);                            \
  }
PTO_PRECISION(TEXP)
PTO_PRECISION(TLOG)
PTO_PRECISION(TSQRT)
PTO_PRECISION(TRSQRT)
PTO_PRECISION(TRECIP)
PTO_PRECISION(TDIV)
PTO_PRECISION(TREM)
PTO_PRECISION(TFMOD)
PTO_PRECISION(TPOW)
PTO_PRECISION(TDIVS)
PTO_PRECISION(TREMS)
PTO_PRECISION(TFMODS)
PTO_PRECISION(TPOWS)
PTO_PRECISION(TROWEXPANDDIV)
PTO_PRECISION(TCOLEXPANDDIV)
#undef PTO_PRECISION

// Computes d = scalar on the valid region.
template <class D, class... X>
PTO_INLINE RecordEvent TEXPANDS(D& d, typename D::DType scalar, const X&...) {
  static_assert(check_numbers<D>());
  PTO_INSTRUCTION(TEXPANDS, "d, scalar", out(d));
  const auto s = to_compute(scalar);
  using V = Vec<Compute<typename D::DType>, kTileLanes<D>>;
  const V value = lanes::splat<V>(s);
  if constexpr (kIsFull<D> && kIsMicro<D>) {
    PTO_UNROLL
    for (int i = 0; i < D::Numel / kCount<V>; ++i)
      lanes::store<kCount<V>>(d.data() + i * kCount<V>, value);
  } else {
    map([value] { return value; }, d);
  }
  return {};
}

PTO_NAMESPACE_END
