// SPDX-License-Identifier: Apache-2.0
// TCVT: converts one element type to another.
//
//     TCVT(d, s, RoundMode::CAST_RINT);                               // float to half
//     TCVT(d, s, RoundMode::CAST_TRUNC, SaturationMode::ON);          // float to int8, clamped
//
// Without saturation an integer wraps, a float outside the integer's range is unspecified, as in C,
// and one that is too large for a narrower float becomes infinity (or the type's substitute). With
// saturation all clamp to the largest numbers that both types hold; NaN stays NaN, and is 0 as an
// integer. mask32 becomes 1 or 0; towards mask32 everything but 0 is true.
// The modes that compiled kernels use are here; convert_modes.hpp, which pto-inst.hpp includes,
// defines the others. Where the mode is a constant of this header, nothing else is instantiated.
//
// Invariant: every pair honours its rounding mode and rounds once.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise/elementwise.hpp"

PTO_NAMESPACE_BEGIN

// The range of an integer type, in the type that it computes in.
template <class T>
inline constexpr Compute<T> kSmallestOf = lowest<Compute<T>>();
template <class T>
inline constexpr Compute<T> kLargestOf = highest<Compute<T>>();

// True for types whose conversions always clamp, since no arithmetic wraps in them.
template <class T>
inline constexpr bool kAlwaysClamps = false;

namespace lanes {

// Converts any number to a double. A 64-bit integer beyond 2^53 keeps 52 bits, of which the last
// says whether any lost bit was not zero: enough to round once more to any narrower type.
template <class V>
PTO_INLINE Vec<double, kCount<V>> exact_double(V v) {
  if constexpr (!kIsFloat<LaneOf<V>> && sizeof(LaneOf<V>) == 8) {
    using U = Vec<uint64_t, kCount<V>>;
    const U sign = kIsSigned<LaneOf<V>> ? U(v >> 63) : U{}, size = (U(v) ^ sign) - sign;
    const U sticky = select((size & 0xfff) != 0, U{} + 0x1000, U{});
    const U kept = select((size >> 53) != 0, (size & ~U(U{} + 0xfff)) | sticky, size);
    return convert<double>(V((kept ^ sign) - sign));
  } else {
    return convert<double>(v);
  }
}

// Converts a double to a float that rounds to any narrower type as the double does: towards zero,
// with the last bit set where anything is lost.
template <class V>
PTO_INLINE Vec<float, kCount<V>> sticky_float(V v) {
  using I = Vec<int32_t, kCount<V>>;
  const auto nearest = convert<float>(v);
  const V back = convert<double>(nearest);
  const I is_beyond = convert<int32_t>(abs(back) > abs(v));
  const I is_lossy = convert<int32_t>((back != v) & (v == v));
  return bit_cast<Vec<float, kCount<V>>>((bit_cast<I>(nearest) + is_beyond) | (is_lossy & 1));
}

// True where store() rounds To from float, and From's numbers that To holds have more bits than
// that: half ends below 2^24.
template <class From, class To>
constexpr bool kNeedsSticky =
    kSame<Compute<To>, float> && !kSame<To, float> && !kSame<Compute<From>, float> &&
    sizeof(From) >= 4 && !(kSame<To, half> && !kIsFloat<From>);

// Calls f on both halves of a vector whose lanes are more than a register of doubles.
template <class F, class V>
PTO_INLINE auto by_halves(F f, V v) {
  if constexpr (kCount<V> * 8 > kVectorBytes) {
    const Halves<V> half(v);
    return join(by_halves(f, half.low), by_halves(f, half.high));
  } else {
    return f(v);
  }
}

// Converts Compute<From> to Compute<To>: floats to nearest even, cut towards integers. store() then
// narrows to To's storage.
template <class From, class To, class V>
PTO_INLINE Vec<Compute<To>, kCount<V>> convert_plainly(V v) {
  using C = Compute<To>;
  constexpr int N = kCount<V>;
  if constexpr (kSame<To, mask32>) {
    if constexpr (kSame<From, mask32>)
      return v;
    else
      return convert<int32_t>(v != V{});
  } else if constexpr (kSame<From, mask32>) {
    if constexpr (kSame<C, float>)
      return bit_cast<Vec<float, N>>(v & 0x3f800000);
    else
      return convert<C>(v & 1);
  } else if constexpr (kNeedsSticky<From, To>) {
    return by_halves([](auto part) { return sticky_float(exact_double(part)); }, v);
  } else if constexpr (kIsFloat<From> && sizeof(C) < 4) {
    return convert<C>(convert<int32_t>(v));
  } else {
    return convert<C>(v);
  }
}

// Converts in any mode; see convert_modes.hpp.
template <class D, class S>
void convert_by_mode(D& d, const S& s, RoundMode mode, SaturationMode sat);
// Converts where D or S holds two numbers in a byte; see convert_modes.hpp.
template <class D, class S>
void convert_pairs(D& d, const S& s, RoundMode mode, SaturationMode sat);

template <class From, class To>
constexpr bool is_plain(RoundMode mode, SaturationMode sat) {
  if (kSame<From, mask32> || kSame<To, mask32>) return true;
  // Every integer lies within the range of float.
  constexpr bool kAlwaysFits = !kIsFloat<From> && (kSame<To, float> || kSame<To, double>);
  if ((sat == SaturationMode::ON || kAlwaysClamps<To>)&&!kAlwaysFits) return false;
  if (mode == RoundMode::CAST_NONE) return true;
  if (kIsFloat<To>) return mode == RoundMode::CAST_RINT;
  return !kIsFloat<From> || mode == RoundMode::CAST_TRUNC;
}

}  // namespace lanes

template <class D, class S>
constexpr bool check_pairs() {
  static_assert(kIsTwin<typename D::DType> != kIsTwin<typename S::DType>,
                "TCVT: one of the tiles must hold single numbers; convert through bfloat16_t");
  static_assert(kIsRows<D, S>,
                "TCVT: pairs lie side by side in rows; use BLayout::RowMajor and no box");
  static_assert(D::Rows == S::Rows &&
                    (D::Cols == S::Cols || D::Cols == 2 * S::Cols || 2 * D::Cols == S::Cols),
                "TCVT: the tile of pairs must have the other's Rows, and its Cols or half of them; "
                "declare it so");
  return true;
}

namespace detail {

template <class D, class S>
PTO_INLINE void convert_tile(D& d, const S& s, RoundMode mode, SaturationMode sat) {
  using From = typename S::DType;
  using To = typename D::DType;
  if constexpr (kIsTwin<From> || kIsTwin<To>) {
    static_assert(check_pairs<D, S>());
    lanes::convert_pairs(d, s, mode, sat);
  } else {
    static_assert(check_elementwise<D, S>());
    // A mode that is known only at run time is told apart once, out of line.
    if (__builtin_constant_p(mode) && lanes::is_plain<From, To>(mode, sat))
      map([](auto v) { return lanes::convert_plainly<From, To>(v); }, d, s);
    else
      lanes::convert_by_mode(d, s, mode, kAlwaysClamps<To> ? SaturationMode::ON : sat);
  }
}

}  // namespace detail

// NeedSetCtrl sets the hardware's control register; there is none here.
template <auto NeedSetCtrl = true, class D, class S, class... X>
PTO_INLINE RecordEvent TCVT(D& d, const S& s, RoundMode mode, SaturationMode sat, const X&...) {
  PTO_INSTRUCTION(TCVT, "d, s, [tmp], mode, [sat]", out(d), in(s));
  PTO_IF_CHECKED(if (!kIsTwin<typename D::DType> && !kIsTwin<typename S::DType>)
                     checked::require_covered("TCVT", "d, s, [tmp], mode, [sat]", d, s);)
  detail::convert_tile(d, s, mode, sat);
  return {};
}
template <auto NeedSetCtrl = true, class D, class S, class... X>
PTO_INLINE RecordEvent TCVT(D& d, const S& s, RoundMode mode = RoundMode::CAST_NONE,
                            const X&... rest) {
  return TCVT<NeedSetCtrl>(d, s, mode, SaturationMode::OFF, rest...);
}

// Takes a temporary tile too, which nothing here needs.
template <auto NeedSetCtrl = true, class D, class S, class Tmp, class... X,
          typename Enable<kIsTile<Tmp>>::type = 0>
PTO_INLINE RecordEvent TCVT(D& d, const S& s, const Tmp&, RoundMode mode, const X&... rest) {
  return TCVT<NeedSetCtrl>(d, s, mode, rest...);
}

PTO_NAMESPACE_END
