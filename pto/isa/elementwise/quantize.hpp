// SPDX-License-Identifier: Apache-2.0
// TQUANT and TDEQUANT: floats to 8-bit integers with a scale per row, and to 8- and 4-bit floats
// with a power of two for each 32 of them.
//
//     TQUANT<QuantType::INT8_SYM>(d, s, scale);                 // scale[r,0] is 1 / step of row r
//     TQUANT<QuantType::MXFP8>(d, s, &exponents, &max, &scaling);          // 32 columns share one
//     TQUANT<0, MxQuantAlg::NvMxFp4E2M1>(pairs, s, &exponents, &max, &scaling);   // 32 rows do
//     TDEQUANT(s, d, scale, offset);
//
// An exponent is an e8m0 code E; a group is multiplied by 2^(127 - E) and rounded to nearest even,
// clamped to the largest number. OCP: E is that of the largest magnitude less 8 (e4m3) or 2 (e2m1).
// NV: E is that of the least power of two not below the largest magnitude / 448 or / 6. The largest
// magnitude ignores NaN in e4m3; in e2m1 a NaN makes the exponent NaN. Magnitudes and scalings hold
// a number per group, one line of groups directly after another; so do exponents, unless kIsGrid.
//
// Invariant: a product and the sum that follows are rounded one by one.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise/mx_groups.hpp"

PTO_NAMESPACE_BEGIN

enum class MxQuantAlg { OcpMxFp8E4M3, NvMxFp8E4M3, OcpMxFp4E2M1, NvMxFp4E2M1, Hif4 };
// The layout of exp_zz: that of exp, or blocks of 16 rows by 2 groups.
enum class VecStoreMode { ND, NZ };

namespace quantize {

constexpr bool is_mx(QuantType type) {
  return type == QuantType::MXFP8 || type == QuantType::MXFP4_E2M1;
}

template <QuantType Type, class D, class S, class E>
constexpr bool check_mx() {
  static_assert(is_mx(Type), "TQUANT: e4m3 and e2m1 share exponents; give INT8 a tile of scales");
  static_assert(kSame<Compute<typename S::DType>, float>,
                "TQUANT: the source must be float, half or bfloat16_t; convert with TCVT");
  static_assert(kIsRows<D, S>,
                "TQUANT: source and destination must be row-major without boxes; "
                "lay the result out with TMOV");
  static_assert(sizeof(typename D::DType) == 1 && sizeof(typename E::DType) == 1 &&
                    kIsTwin<typename D::DType> == (Type == QuantType::MXFP4_E2M1),
                "TQUANT: MXFP8 writes bytes, MXFP4_E2M1 float4_e2m1x2_t, exponents are bytes; "
                "declare their tiles so");
  static_assert(
      Type == QuantType::MXFP8 ? D::Cols == S::Cols : D::Cols == S::Cols || 2 * D::Cols == S::Cols,
      "TQUANT: the destination must have the source's columns, or half for pairs; limit the valid "
      "region instead");
  return true;
}

// True where exponents are a tile with a row for each line of groups, which holds them by its rows.
template <class E, class S, int Axis>
constexpr bool kIsGrid = E::Rows > 1 && kIsRows<E> &&
                         (Axis == 1 ? E::Rows >= S::Rows && E::Cols * kGroup >= S::Cols
                                    : E::Rows * kGroup >= S::Rows && E::Cols >= S::Cols);

// Counts the lines of groups; interleaved exponents lie in pairs of them.
template <int Axis, bool Interleave = false>
constexpr int groups_of(int rows) {
  if (Axis == 1) return rows;
  return Interleave ? (rows + 2 * kGroup - 1) / (2 * kGroup) * 2 : (rows + kGroup - 1) / kGroup;
}

template <QuantType Type, QuantScaleAlg Alg, int Axis, bool Interleave, class D, class S, class E,
          class M, class Sc>
PTO_INLINE void mx(D& d, const S& s, E& exponents, M& most, Sc& scaling) {
  static_assert(check_mx<Type, D, S, E>());
  static_assert(Axis == 0 || Axis == 1,
                "TQUANT: grp_axis must be 0 or 1; pass 0 for rows, 1 for columns");
  constexpr int kRow = S::ValidRow > 0 ? S::ValidRow : 0, kCol = S::ValidCol > 0 ? S::ValidCol : 0;
  constexpr int kLine = Axis == 1 ? (kCol + kGroup - 1) / kGroup : kCol;
  constexpr int kGroups = groups_of<Axis>(kRow) * kLine;
  static_assert(check_rows<S, D>());
  static_assert(E::Numel >= groups_of<Axis, Interleave>(kRow) * kLine && M::Numel >= kGroups &&
                    Sc::Numel >= kGroups,
                "TQUANT: exponents, magnitudes and scalings are a number for each 32 of the "
                "source; give their tiles as many elements");
  constexpr int kPitch = Type == QuantType::MXFP8 || 2 * D::Cols == S::Cols ? D::Cols : D::Cols / 2;
  const int rows = s.GetValidRow() < D::Rows ? s.GetValidRow() : D::Rows;
  const QuantizedRows<typename S::DType> t = {
      s.data(), reinterpret_cast<uint8_t*>(d.data()), S::Cols, kPitch, rows, s.GetValidCol()};
  const int line = Axis == 1 ? (s.GetValidCol() + kGroup - 1) / kGroup : s.GetValidCol();
  PTO_IF_CHECKED(
      const char* const form = "d, s, exp, max, scaling, ...";
      const int all = line * groups_of<Axis>(rows);
      checked::require_filled("TQUANT", form, 1, d, rows,
                              D::Cols == S::Cols ? s.GetValidCol() : (s.GetValidCol() + 1) / 2);
      checked::require_lines(
          "TQUANT", form, 2, "element", E::Numel, 0,
          kIsGrid<E, S, Axis> && !Interleave ? 0 : line * groups_of<Axis, Interleave>(rows));
      checked::require_lines("TQUANT", form, 3, "element", M::Numel, 0, all);
      checked::require_lines("TQUANT", form, 4, "element", Sc::Numel, 0, all);)
  const Groups<typename M::DType, typename Sc::DType> groups = {
      reinterpret_cast<uint8_t*>(exponents.data()), kIsGrid<E, S, Axis> ? E::Cols : line,
      most.data(), scaling.data()};
  if constexpr (Axis == 1)
    along_rows<Type, Alg>(t, groups);
  else
    along_columns<Type, Alg, Interleave>(t, groups);
}

constexpr QuantType type_of(MxQuantAlg alg) {
  if (alg == MxQuantAlg::Hif4) return QuantType::INT8_SYM;  // which check_mx refuses
  return alg == MxQuantAlg::OcpMxFp8E4M3 || alg == MxQuantAlg::NvMxFp8E4M3 ? QuantType::MXFP8
                                                                           : QuantType::MXFP4_E2M1;
}
constexpr QuantScaleAlg scale_of(MxQuantAlg alg) {
  return alg == MxQuantAlg::OcpMxFp8E4M3 || alg == MxQuantAlg::OcpMxFp4E2M1 ? QuantScaleAlg::OCP
                                                                            : QuantScaleAlg::NV;
}

// True where there are parameters: without, the destination keeps what it has.
template <class P>
PTO_INLINE bool has_any(const P& p) {
  return p.GetValidRow() > 0 && p.GetValidCol() > 0;
}
template <class P>
PTO_INLINE float parameter(const P& p, int row, int col) {
  const int rows = p.GetValidRow(), cols = p.GetValidCol();
  return float(p.GetElement(row < rows ? row : rows - 1, col < cols ? col : cols - 1));
}

template <QuantType Type, class D, class S, class P>
PTO_INLINE void to_int8(D& d, const S& s, const P& scale, const P* offset) {
  static_assert(Type == QuantType::INT8_SYM || Type == QuantType::INT8_ASYM,
                "TQUANT: a tile of scales belongs to INT8_SYM and INT8_ASYM; "
                "MX formats take exp, max and scaling tiles");
  using To = typename Choose<Type == QuantType::INT8_SYM, int8_t, uint8_t>::type;
  static_assert(kSame<typename S::DType, float> && kSame<typename D::DType, To>,
                "TQUANT: INT8 takes float and gives int8_t (INT8_SYM) or uint8_t (INT8_ASYM); "
                "convert with TCVT");
  static_assert(check_elementwise<D, S>() && kIsRows<D, S>);
  constexpr int N = kLanes<float>;
  using V = Vec<float, N>;
  PTO_IF_CHECKED(const char* const form =
                     offset ? "d, s, scale, [tmp], offset, <INT8>" : "d, s, scale, [tmp], <INT8>";
                 if (offset) checked::enter("TQUANT", form, checked::in(s, scale, *offset));
                 checked::require_covered("TQUANT", form, d, s);)
  if (!has_any(scale) || (offset && !has_any(*offset))) return;
  for (int r = 0; r < d.GetValidRow(); ++r) {
    const V factor = lanes::splat<V>(parameter(scale, r, 0));
    const V shift = lanes::splat<V>(offset ? parameter(*offset, r, 0) : 0.f);
    detail::map_line<N>(
        [=](V x) {
          V y = lanes::rounded(x * factor);
          if (Type == QuantType::INT8_ASYM) y = y + shift;
          return lanes::saturated<To>(lanes::rint(y));
        },
        d.GetValidCol(), d.data() + r * D::Cols, s.data() + r * S::Cols);
  }
}

}  // namespace quantize

// Computes d = rint(s * scale[r,0] (+ offset[r,0])), clamped.
template <auto Type, class D, class S, class P, class... X>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, const P& scale, P* offset, const X&...) {
  PTO_INSTRUCTION(TQUANT, "d, s, scale, [tmp], offset, <INT8>", out(d), in(s, scale));
  quantize::to_int8<Type>(d, s, scale, static_cast<const P*>(offset));
  return {};
}
template <auto Type, class D, class S, class P>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, const P& scale) {
  PTO_ENTER(TQUANT, "d, s, scale, [tmp], <INT8>", out(d), in(s, scale));
  static_assert(Type != QuantType::INT8_ASYM,
                "TQUANT: INT8_ASYM needs offsets; give a pointer to their tile after the scales");
  quantize::to_int8<Type>(d, s, scale, static_cast<const P*>(nullptr));
  return {};
}
// Takes a temporary tile too, which nothing here needs.
template <auto Type, class D, class S, class P, class Tmp, class... X,
          typename Enable<kIsTile<Tmp>>::type = 0>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, const P& scale, const Tmp&, P* offset,
                              const X&... x) {
  return TQUANT<Type>(d, s, scale, offset, x...);
}
template <auto Type, class D, class S, class P, class X, class... More,
          typename Enable<kIsTrailing<X>>::type = 0>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, const P& scale, const X&, const More&...) {
  static_assert(check_trailing<More...>());
  return TQUANT<Type>(d, s, scale);
}

// 32 columns share an exponent.
template <auto Type, class D, class S, class E, class M, class Sc, auto Alg = QuantScaleAlg::OCP,
          class... X>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, E* exp, M* max, Sc* scaling, const X&...) {
  PTO_INSTRUCTION(TQUANT, "d, s, exp, max, scaling, <MX>", out(d, *exp, *max, *scaling), in(s));
  quantize::mx<Type, Alg, 1, false>(d, s, *exp, *max, *scaling);
  return {};
}

// Writes the exponents again in exp_zz.
template <auto Type, auto Store, class D, class S, class E, class M, class Sc, class... X>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, E* exp, M* max, Sc* scaling, E* exp_zz,
                              const X&...) {
  PTO_INSTRUCTION(TQUANT, "d, s, exp, max, scaling, exp_zz, [idx], <MX, NZ>",
                  out(d, *exp, *max, *scaling), in(s));
  quantize::mx<Type, QuantScaleAlg::OCP, 1, false>(d, s, *exp, *max, *scaling);
  const auto* from = reinterpret_cast<const uint8_t*>(exp->data());
  auto* to = reinterpret_cast<uint8_t*>(exp_zz->data());
  const int columns = (s.GetValidCol() + quantize::kGroup - 1) / quantize::kGroup;
  const int blocks = (columns + 1) / 2, pitch = quantize::kIsGrid<E, S, 1> ? E::Cols : columns;
  const int rows = s.GetValidRow() < D::Rows ? s.GetValidRow() : D::Rows;
  PTO_IF_CHECKED(const char* const form = "d, s, exp, max, scaling, exp_zz, [idx], <MX, NZ>";
                 checked::require_lines(
                     "TQUANT", form, 5, "element", E::Numel, 0,
                     Store == VecStoreMode::NZ ? (rows + 15) / 16 * blocks * 32 : rows * columns);)
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      to[Store == VecStoreMode::NZ ? ((r / 16 * blocks + c / 2) * 16 + r % 16) * 2 + c % 2
                                   : r * columns + c] = from[r * pitch + c];
  return {};
}

// Takes the indices by which a chip reorders the exponents.
template <auto Type, auto Store, class D, class S, class E, class M, class Sc, class I, class... X>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, E* exp, M* max, Sc* scaling, E* exp_zz, I*,
                              const X&... x) {
  return TQUANT<Type, Store>(d, s, exp, max, scaling, exp_zz, x...);
}

// Axis 1: 32 columns share an exponent, axis 0: 32 rows; there Interleave puts the exponents of
// groups 2g and 2g + 1 of a column side by side.
template <int Axis, auto Alg, class D, class S, class E, class M, class Sc, class... X>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, E* exp, M* max, Sc* scaling, const X&...) {
  PTO_INSTRUCTION(TQUANT, "d, s, exp, max, scaling, <axis, MX>", out(d, *exp, *max, *scaling),
                  in(s));
  quantize::mx<quantize::type_of(Alg), quantize::scale_of(Alg), Axis, false>(d, s, *exp, *max,
                                                                             *scaling);
  return {};
}
template <int Axis, auto Alg, bool Interleave, class D, class S, class E, class M, class Sc,
          class... X>
PTO_INLINE RecordEvent TQUANT(D& d, const S& s, E* exp, M* max, Sc* scaling, const X&...) {
  PTO_INSTRUCTION(TQUANT, "d, s, exp, max, scaling, <axis, MX, interleave>",
                  out(d, *exp, *max, *scaling), in(s));
  quantize::mx<quantize::type_of(Alg), quantize::scale_of(Alg), Axis, Interleave>(d, s, *exp, *max,
                                                                                  *scaling);
  return {};
}

// Computes d = (s - offset) * scale, both at [r, min(c, their last column)].
template <class D, class S, class P, class... X>
PTO_INLINE RecordEvent TDEQUANT(D& d, const S& s, const P& scale, const P& offset, const X&...) {
  PTO_INSTRUCTION(TDEQUANT, "d, s, scale, offset", out(d), in(s, scale, offset));
  static_assert(kSame<Compute<typename D::DType>, float> && !kIsFloat<typename S::DType>,
                "TDEQUANT: integers become floats; convert floats with TCVT");
  static_assert(
      check_elementwise<D, S>() && kIsRows<D, S>,
      "TDEQUANT: source and destination must be row-major without boxes; lay them out with TMOV");
  constexpr int N = fewest(kTileLanes<D>, kTileLanes<S>);
  if (!quantize::has_any(scale) || !quantize::has_any(offset)) return {};
  const int n = d.GetValidCol(), columns = scale.GetValidCol(), own = P::isRowMajor ? columns : 1;
  PTO_IF_CHECKED(const char* const form = "d, s, scale, offset";
                 checked::require_covered("TDEQUANT", form, d, s);
                 checked::require_valid("TDEQUANT", form, 2, d.GetValidRow(), n > 0, scale);
                 checked::require_valid("TDEQUANT", form, 3, d.GetValidRow(),
                                        n < columns ? n : columns, offset);)
  for (int r = 0; r < d.GetValidRow(); ++r) {
    auto* to = d.data() + r * D::Cols;
    const auto* from = s.data() + r * S::Cols;
    const int row = r < scale.GetValidRow() ? r : scale.GetValidRow() - 1;
    // Columns with parameters of their own, then those that share the last.
    int c = 0;
    if (columns > 1 && P::isRowMajor) {
      c = n < own ? n : own;
      detail::map_line<N>([](auto x, auto factor,
                             auto shift) { return (lanes::convert<float>(x) - shift) * factor; },
                          c, to, from, scale.data() + P::Offset(row, 0),
                          offset.data() + P::Offset(row, 0));
    }
    for (; !P::isRowMajor && c < columns - 1 && c < n; ++c)
      lanes::store_scalar(to + c, (float(from[c]) - quantize::parameter(offset, r, c)) *
                                      quantize::parameter(scale, r, c));
    const float factor = quantize::parameter(scale, r, columns - 1);
    const float shift = quantize::parameter(offset, r, columns - 1);
    detail::map_line<N>([=](auto x) { return (lanes::convert<float>(x) - shift) * factor; }, n - c,
                        to + c, from + c);
  }
  return {};
}

PTO_NAMESPACE_END
