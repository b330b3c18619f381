// SPDX-License-Identifier: Apache-2.0
// Arg reduce: finds the greatest and the smallest elements of rows and columns.
//
//     TROWARGMAX(index, s, tmp);           // index[i, 0] = first column of row i's maximum
//     TCOLARGMIN(value, index, s, tmp);    // the minimum of each column too
//
// Invariant: the first of equal elements wins; NaN counts as the greatest and as the smallest, as
// it does in TROWMAX. An empty row or column has index 0 and the reduction's neutral value.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/reduce/reduce.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

// The type in which elements compare: 32 bits wide, beside their 32-bit index.
template <class T>
using Compared =
    typename Choose<kIsFloat<T>, float,
                    typename Choose<kSame<Compute<T>, uint32_t>, uint32_t, int32_t>::type>::type;

// Tracks the best element of each lane so far, and its position.
template <class Order, class T>
class BestLanes {
 public:
  static constexpr int N = kLanes<float>;
  using V = Vec<Compared<T>, N>;
  using I = Vec<int32_t, N>;

  // Positions count along the first n lanes from `at`, or all lanes have position `at`.
  PTO_INLINE void see(const T* s, int n, I at) {
    V v;
    if (n == N)
      v = lanes::convert<Compared<T>>(lanes::load<N>(s));
    else
      v = lanes::convert<Compared<T>>(lanes::load_part<N>(s, n));
    I better = precedes<Order>(v, value_) | (position_ < 0);
    if (n != N) better &= lanes::first<V>(n);
    value_ = lanes::select(better, v, value_);
    position_ = lanes::select(better, at, position_);
  }
  PTO_INLINE V values() const { return value_; }
  PTO_INLINE I positions() const { return position_; }

  // Returns the best of all lanes, the first where several are equal.
  PTO_INLINE void fold(Compared<T>& value, int& position) const {
    value = lanes::reduce([](auto a, auto b) { return Order::apply(a, b); }, value_);
    const V best = lanes::splat<V>(value);
    I hits = value_ == best;
    if constexpr (kIsFloat<T>) hits |= (best != best) & (value_ != value_);
    hits &= position_ >= 0;
    const I candidates = lanes::select(hits, position_, lanes::splat<I>(highest<int32_t>()));
    const int first =
        lanes::reduce([](auto a, auto b) { return lanes::minimum(a, b); }, candidates);
    position = first == highest<int32_t>() ? 0 : first;
  }

 private:
  V value_ = lanes::splat<V>(identity<Compared<T>>(Order::kStart));
  I position_ = lanes::splat<I>(-1);
};

// Takes the value, where the form has a tile for it.
struct NoValues {
  struct Target {
    static constexpr int Rows = 1 << 30, Cols = Rows;
  };
  template <class C>
  PTO_INLINE void store_row(int, C) const {}
  template <class V>
  PTO_INLINE void store_cols(int, V, int) const {}
};
template <class D>
struct ValuesOf {
  using Target = D;
  D& d;
  using T = typename D::DType;
  template <class C>
  PTO_INLINE void store_row(int r, C value) const {
    lanes::store_scalar(d.data() + D::Offset(r, 0), Compute<T>(value));
  }
  template <class V>
  PTO_INLINE void store_cols(int c, V value, int n) const {
    lanes::store_part<kCount<V>>(d.data() + D::Offset(0, c), lanes::convert<Compute<T>>(value), n);
  }
};

template <class I, class S>
constexpr bool check_arg_reduction() {
  using T = typename S::DType;
  static_assert(
      kSame<typename I::DType, int32_t> || kSame<typename I::DType, uint32_t>,
      "TROWARG..., TCOLARG...: the index tile must be int32_t or uint32_t; declare it so");
  static_assert(sizeof(T) <= 4 && (kIsFloat<T> || kSame<T, Raw<T>>),
                "TROWARG..., TCOLARG...: elements must be numbers of at most 4 bytes; "
                "convert with TCVT");
  static_assert(kIsRows<S>,
                "TROWARG..., TCOLARG...: the source must be row-major and unboxed; "
                "transpose with TTRANS");
  return true;
}

template <class Order, class I, class S, class Values>
PTO_INLINE void arg_of_rows(I& index, const S& s, Values values) {
  using T = typename S::DType;
  using Best = BestLanes<Order, T>;
  static_assert(check_arg_reduction<I, S>());
  static_assert(
      I::Rows >= S::Rows || Rules::kTakesOtherShapes,
      "TROWARG...: the index tile needs a row for every row of the source; give it as many Rows");
  static_assert(check_rows<S, typename Values::Target>());
  constexpr int N = Best::N;
  const int cols = s.GetValidCol();
  for (int r = 0; r < s.GetValidRow(); ++r) {
    const T* row = s.data() + S::Offset(r, 0);
    Best best;
    auto at = lanes::iota<int32_t, N>();
    int c = 0;
    for (; c + N <= cols; c += N, at += N) best.see(row + c, N, at);
    if (c < cols) best.see(row + c, cols - c, at);
    Compared<T> value;
    int position;
    best.fold(value, position);
    lanes::store_element(index.data() + I::Offset(r, 0), typename I::DType(position));
    values.store_row(r, value);
  }
}

template <class Order, class I, class S, class Values>
PTO_INLINE void arg_of_cols(I& index, const S& s, Values values) {
  using T = typename S::DType;
  using Best = BestLanes<Order, T>;
  static_assert(check_arg_reduction<I, S>());
  static_assert(kIsRows<I> && I::Cols >= S::Cols,
                "TCOLARG...: the index tile must be row-major with every column of the source; "
                "give it as many Cols");
  static_assert(check_columns<S, typename Values::Target>());
  constexpr int N = Best::N;
  const int cols = s.GetValidCol(), rows = s.GetValidRow();
  for (int c = 0; c < cols; c += N) {
    const int n = cols - c < N ? cols - c : N;
    Best best;
    auto at = typename Best::I{};
    for (int r = 0; r < rows; ++r, at += 1) best.see(s.data() + S::Offset(r, c), n, at);
    const auto first = at != 0 ? best.positions() : at;
    lanes::store_part<N>(index.data() + I::Offset(0, c), lanes::convert<typename I::DType>(first),
                         n);
    values.store_cols(c, best.values(), n);
  }
}

template <class V, class S>
constexpr bool check_arg_values() {
  static_assert(kSame<typename V::DType, typename S::DType>,
                "TROWARG..., TCOLARG...: the value tile must have the source's element type; "
                "convert with TCVT");
  static_assert(V::isRowMajor || V::Cols == 1,
                "TROWARG..., TCOLARG...: values must be a row or a column; use a row-major tile or "
                "one of a single column");
  return true;
}

}  // namespace detail

#define PTO_ARG_REDUCE(M, Order, lines)                                                 \
  template <class I, class S, class Tmp, class... X,                                    \
            typename Enable<(!kIsTile<X> && ... && true)>::type = 0>                    \
  PTO_INLINE RecordEvent M(I& index, const S& s, const Tmp&, const X&...) {             \
    static_assert(check_trailing<Tmp, X...>());                                         \
    PTO_ENTER(M, "dIdx, s, tmp", out(index), in(s));                                    \
    PTO_IF_CHECKED(checked::require_##lines(#M, "dIdx, s, tmp", 1, index, s);)          \
    detail::arg_of_##lines<lanes::Order##_value>(index, s, detail::NoValues());         \
    return {};                                                                          \
  }                                                                                     \
  template <class V, class I, class S, class Tmp, class... X,                           \
            typename Enable<kIsTile<Tmp>>::type = 0>                                    \
  PTO_INLINE RecordEvent M(V& value, I& index, const S& s, const Tmp&, const X&...) {   \
    static_assert(detail::check_arg_values<V, S>());                                    \
    PTO_INSTRUCTION(M, "dVal, dIdx, s, tmp", out(value, index), in(s));                 \
    PTO_IF_CHECKED(checked::require_##lines(#M, "dVal, dIdx, s, tmp", 1, value, s);     \
                   checked::require_##lines(#M, "dVal, dIdx, s, tmp", 2, index, s);)    \
    detail::arg_of_##lines<lanes::Order##_value>(index, s, detail::ValuesOf<V>{value}); \
    return {};                                                                          \
  }
PTO_ARG_REDUCE(TROWARGMAX, TROWMAX, rows)
PTO_ARG_REDUCE(TROWARGMIN, TROWMIN, rows)
PTO_ARG_REDUCE(TCOLARGMAX, TROWMAX, cols)
PTO_ARG_REDUCE(TCOLARGMIN, TROWMIN, cols)
#undef PTO_ARG_REDUCE

PTO_NAMESPACE_END
