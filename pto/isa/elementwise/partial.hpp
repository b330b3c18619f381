// SPDX-License-Identifier: Apache-2.0
// The PART instructions combine tiles, each of which is valid in a part of the destination.
//
//     TPARTADD(d, a, b);                     // a + b where both are valid, else the valid one
//     TPARTARGMAX(d, a, b, dIdx, aIdx, bIdx);   // the greater element and its index
//
// Invariant: valid elements of the destination where neither source is valid become 0. A
// destination may be one of the sources.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/reduce/reduce.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

// Counts the elements of line i that a tile has.
template <class S>
PTO_INLINE int length_of_line(const S& s, int i) {
  return i < valid_lines(s) ? valid_length(s) : 0;
}

template <class T>
PTO_INLINE void copy_elements(T* d, const T* s, int from, int to) {
  if (from < to && d != s)
    __builtin_memmove(static_cast<void*>(d + from), s + from, size_t(to - from) * sizeof(T));
}
template <class T>
PTO_INLINE void clear_elements(T* d, int from, int to) {
  if (from < to) __builtin_memset(static_cast<void*>(d + from), 0, size_t(to - from) * sizeof(T));
}

// Writes one line: `both(n)` where both sources are valid, then the longer source, then zeros.
template <class Both, class T>
PTO_INLINE void combine_line(Both both, T* d, const T* a, int count_a, const T* b, int count_b,
                             int length) {
  count_a = count_a < length ? count_a : length;
  count_b = count_b < length ? count_b : length;
  const int common = count_a < count_b ? count_a : count_b;
  both(common);
  copy_elements(d, a, common, count_a);
  copy_elements(d, b, common, count_b);
  clear_elements(d, count_a < count_b ? count_b : count_a, length);
}

template <class D, class... S>
constexpr bool check_parts() {
  static_assert((kSame<typename D::DType, typename S::DType> && ...),
                "TPART...: every tile must have the same element type; convert with TCVT");
  static_assert(kAreAllLines<D, S...> && (Rules::kTakesOtherShapes ||
                                          ((kSameShape<D, S> && ...) && kSameLayout<D, S...>)),
                "TPART...: every tile must have the same Rows x Cols and unboxed layout; limit "
                "the valid regions instead");
  return true;
}

template <class F, class D, class A, class B>
PTO_INLINE void combine_parts(D& d, const A& a, const B& b) {
  static_assert(check_parts<D, A, B>());
  constexpr int N = kTileLanes<D>, L = kLineLength<D>;
  for (int i = 0; i < valid_lines(d); ++i) {
    auto* to = d.data() + i * L;
    const auto *x = a.data() + i * kLineLength<A>, *y = b.data() + i * kLineLength<B>;
    combine_line([=](int n) { map_line<N>(Evaluate<F>{}, n, to, x, y); }, to, x,
                 length_of_line(a, i), y, length_of_line(b, i), valid_length(d));
  }
}

// Compares elements and carries their indices, as many lanes at a time as both have.
template <class Order, class T, class I>
PTO_INLINE void pick_elements(int count, T* d, const T* a, const T* b, I* di, const I* ai,
                              const I* bi) {
  constexpr int N = kLanes<float>;
  using Mask = lanes::MaskOf<Vec<I, N>>;
  for (int i = 0; i < count; i += N) {
    const int n = count - i < N ? count - i : N;
    const auto x = lanes::load_part<N>(a + i, n), y = lanes::load_part<N>(b + i, n);
    const auto takes_a = precedes<Order>(x, y);
    const Vec<I, N> index =
        lanes::select(lanes::convert<LaneOf<Mask>>(takes_a), lanes::load_part<N>(ai + i, n),
                      lanes::load_part<N>(bi + i, n));
    lanes::store_part<N>(d + i, lanes::select(takes_a, x, y), n);
    lanes::store_part<N>(di + i, index, n);
  }
}

template <class Order, class D, class A, class B, class DI, class AI, class BI>
PTO_INLINE void pick_parts(D& d, const A& a, const B& b, DI& d_index, const AI& a_index,
                           const BI& b_index) {
  using I = typename DI::DType;
  static_assert(check_parts<D, A, B>());
  static_assert(check_parts<DI, AI, BI>());
  static_assert(kIsFloat<typename D::DType> && sizeof(typename D::DType) <= 4,
                "TPARTARG...: values must be half, bfloat16_t or float; convert with TCVT");
  static_assert(kSame<I, Raw<I>> && !kIsFloat<I> && (sizeof(I) == 2 || sizeof(I) == 4),
                "TPARTARG...: indices must be integers of 2 or 4 bytes; declare their tiles so");
  static_assert(kSameLayout<D, DI> || Rules::kTakesOtherShapes,
                "TPARTARG...: indices must lie as their values do; give both tiles the same Rows, "
                "Cols and layout");
  constexpr int L = kLineLength<D>;
  for (int i = 0; i < valid_lines(d); ++i) {
    auto* to = d.data() + i * L;
    const auto *x = a.data() + i * kLineLength<A>, *y = b.data() + i * kLineLength<B>;
    I* to_index = d_index.data() + i * kLineLength<DI>;
    const I* x_index = a_index.data() + i * kLineLength<AI>;
    const I* y_index = b_index.data() + i * kLineLength<BI>;
    const int count_a = length_of_line(a, i), count_b = length_of_line(b, i);
    combine_line([=](int n) { pick_elements<Order>(n, to, x, y, to_index, x_index, y_index); }, to,
                 x, count_a, y, count_b, valid_length(d));
    combine_line([](int) {}, to_index, x_index, count_a, y_index, count_b, valid_length(d));
  }
}

}  // namespace detail

#define PTO_REDUCE(row, col, part, op, value, start, numpy, types)         \
  template <class D, class A, class B, class... X>                         \
  PTO_INLINE RecordEvent part(D& d, const A& a, const B& b, const X&...) { \
    PTO_INSTRUCTION(part, "d, a, b", out(d), in(a, b));                    \
    detail::combine_parts<lanes::row##_value>(d, a, b);                    \
    return {};                                                             \
  }
#include "pto/isa/instructions.def"

// d takes a where a > b (TPARTARGMIN: a < b) or only a is NaN, else b; dIdx the index of the same.
#define PTO_PART_ARG(M, Order)                                                                     \
  template <class D, class A, class B, class DI, class AI, class BI, class... X>                   \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, DI& dIdx, const AI& aIdx, const BI& bIdx, \
                           const X&...) {                                                          \
    PTO_INSTRUCTION(M, "d, a, b, dIdx, aIdx, bIdx", out(d), in(a, b), out(dIdx), in(aIdx, bIdx));  \
    PTO_IF_CHECKED(const char* const form = "d, a, b, dIdx, aIdx, bIdx";                           \
                   checked::require_filled(#M, form, 2, dIdx, d.GetValidRow(), d.GetValidCol());   \
                   checked::require_index(#M, form, 3, d, a, aIdx);                                \
                   checked::require_index(#M, form, 4, d, b, bIdx);)                               \
    if constexpr (Rules::kTakesPairs &&                                                            \
                  !kIsFloat<typename A::DType>) /* d, dIdx, a, aIdx, b, bIdx */                    \
      detail::pick_parts<lanes::Order##_value>(d, b, aIdx, const_cast<A&>(a), dIdx, bIdx);         \
    else                                                                                           \
      detail::pick_parts<lanes::Order##_value>(d, a, b, dIdx, aIdx, bIdx);                         \
    return {};                                                                                     \
  }
PTO_PART_ARG(TPARTARGMAX, TROWMAX)
PTO_PART_ARG(TPARTARGMIN, TROWMIN)
#undef PTO_PART_ARG

PTO_NAMESPACE_END
