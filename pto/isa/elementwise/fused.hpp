// SPDX-License-Identifier: Apache-2.0
// Fused: element-wise instructions that do several steps, or take their operands in another order
// than the table's rows do.
//
//     TAXPY(acc, x, 2.0f);             // acc = 2 x + acc; acc may be wider than x
//     TADDSC(d, a, 1.0f, b);           // d = a + 1 + b
//     TDIVS(d, 1.0f, a);               // d = 1 / a
//     TADDRELUCONV(d, a, b);           // d = relu(a + b) in d's element type
//
// Invariant: as in elementwise.hpp. TAXPY rounds the product and then the sum, T...RELUCONV rounds
// the sum before it converts, all others compute half and bfloat16_t in f32 and round once.
// Conversions round to nearest even and clamp.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise/convert_modes.hpp"

PTO_NAMESPACE_BEGIN
namespace detail {

template <class D, class A>
constexpr bool check_axpy() {
  using Td = typename D::DType;
  static_assert(kIsFloat<Td> && (kSame<Td, typename A::DType> ||
                                 (kSame<Td, float> && sizeof(typename A::DType) == 2 &&
                                  kIsFloat<typename A::DType>)),
                "TAXPY: the destination must have the source's floating-point type, or be float "
                "where the source is half or bfloat16_t; convert with TCVT");
  return true;
}

// Computes relu(a + b) or relu(a - b) in the sources' type, then converts.
template <class F, class D, class A, class B>
PTO_INLINE void combine_relu_convert(D& d, const A& a, const B& b) {
  using T = typename A::DType;
  static_assert(kSame<T, typename B::DType>,
                "TADDRELUCONV, TSUBRELUCONV: both sources must have the same element type; convert "
                "one with TCVT");
  Tile<TileType::Vec, T, A::Rows, A::Cols, A::BFractal, DYNAMIC, DYNAMIC, A::SFractal,
       A::SFractalSize>
      sum(d.GetValidRow(), d.GetValidCol());
  map([](auto x, auto y) { return lanes::relu(lanes::as_stored<T>(evaluate<F>(x, y))); }, sum, a,
      b);
  TCVT(d, sum, RoundMode::CAST_RINT, SaturationMode::ON);
}

}  // namespace detail

// Computes d = s in d's element type, as C converts: integers wrap, floats lose their fraction
// towards integers and round to nearest towards floats.
template <class D, class S, class... X>
PTO_INLINE RecordEvent TPACK(D& d, const S& s, const X&...) {
  PTO_EACH_ELEMENT(TPACK, "d, s", d, s);
  return TCVT(d, s, RoundMode::CAST_NONE);
}

// Computes d = s * a + d; the product is rounded to d's element type first.
template <class D, class A, class... X>
PTO_INLINE RecordEvent TAXPY(D& d, const A& a, typename A::DType scalar, const X&...) {
  static_assert(check_elementwise<D, A>());
  static_assert(detail::check_axpy<D, A>());
  PTO_EACH_ELEMENT(TAXPY, "d, a, scalar", d, a);
  const auto s = to_compute(scalar);
  map(
      [s](auto x, auto old) {
        using V = decltype(x);
        const V product = lanes::rounded(lanes::splat<V>(s) * x);
        return lanes::as_stored<typename D::DType>(product) + old;
      },
      d, a, d);
  return {};
}

#define PTO_WITH_SCALAR(M, of)                                                                    \
  template <class D, class A, class B, class... X>                                                \
  PTO_INLINE RecordEvent M(D& d, const A& a, typename A::DType scalar, const B& b, const X&...) { \
    static_assert(check_row<lanes::of##_value, D, A, B>());                                       \
    PTO_EACH_ELEMENT(M, "d, a, scalar, b", d, a, b);                                              \
    const auto s = to_compute(scalar);                                                            \
    map([s](auto x,                                                                               \
            auto y) { return evaluate<lanes::of##_value>(x, lanes::splat<decltype(x)>(s), y); },  \
        d, a, b);                                                                                 \
    return {};                                                                                    \
  }
PTO_WITH_SCALAR(TADDSC, TADDC)
PTO_WITH_SCALAR(TSUBSC, TSUBC)
#undef PTO_WITH_SCALAR

// Computes d = scalar / a.
template <class D, class A, class... X, typename Enable<kIsTile<A>>::type = 0>
PTO_INLINE RecordEvent TDIVS(D& d, typename D::DType scalar, const A& a, const X&...) {
  static_assert(check_row<lanes::TDIV_value, D, A>());
  PTO_EACH_ELEMENT(TDIVS, "d, scalar, a", d, a);
  const auto s = to_compute(scalar);
  map([s](auto x) { return evaluate<lanes::TDIV_value>(lanes::splat<decltype(x)>(s), x); }, d, a);
  return {};
}

// Computes d = max(0, scale * float(a + b)); the sum wraps.
template <class D, class A, class B, class... X>
PTO_INLINE RecordEvent TADDDEQRELU(D& d, const A& a, const B& b, float scale, const X&...) {
  static_assert(check_elementwise<D, A, B>());
  static_assert(
      kSame<typename A::DType, int32_t> && kSame<typename B::DType, int32_t> &&
          kSame<typename D::DType, half>,
      "TADDDEQRELU: the sources must be int32_t and the destination half; convert with TCVT");
  PTO_EACH_ELEMENT(TADDDEQRELU, "d, a, b, scale, [tmp]", d, a, b);
  map(
      [scale](auto x, auto y) {
        const auto sum = lanes::convert<float>(evaluate<lanes::TADD_value>(x, y));
        return lanes::relu(sum * scale);
      },
      d, a, b);
  return {};
}

#define PTO_RELU_CONVERT(M, of)                                         \
  template <class D, class A, class B, class... X>                      \
  PTO_INLINE RecordEvent M(D& d, const A& a, const B& b, const X&...) { \
    static_assert(check_elementwise<D, A, B>());                        \
    PTO_EACH_ELEMENT(M, "d, a, b", d, a, b);                            \
    detail::combine_relu_convert<lanes::of##_value>(d, a, b);           \
    return {};                                                          \
  }
PTO_RELU_CONVERT(TADDRELUCONV, TADD)
PTO_RELU_CONVERT(TSUBRELUCONV, TSUB)
#undef PTO_RELU_CONVERT

PTO_NAMESPACE_END
