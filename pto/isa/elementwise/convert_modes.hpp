// SPDX-License-Identifier: Apache-2.0
// TCVT in every rounding mode, with and without saturation, and for pairs in one byte.
//
//     lanes::round_to_grid<float8_e4m3_t>(v, RoundMode::CAST_FLOOR, SaturationMode::OFF);
//
// A type's numbers of one exponent are multiples of a power of two: rounding a wider float drops
// the bits below and adds one, or not, to the kept bits. The result is still a float or double;
// since To holds it, the narrowing that follows is exact.
//
// Invariant: one rounding from the source's value, whatever the pair. A mode that points towards
// zero, for the value's sign, never overflows a finite value.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/element/hifloat8.hpp"
#include "pto/isa/elementwise/convert.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {

// The positions of T's numbers; see bits::Minifloat.
template <class T>
struct GridOf : TypeIs<typename T::Format> {};
template <>
struct GridOf<half> : TypeIs<bits::Minifloat<5, 10, 15, bits::Top::kInfinity>> {};
template <>
struct GridOf<bfloat16_t> : TypeIs<bits::Minifloat<8, 7, 127, bits::Top::kInfinity>> {};
template <>
struct GridOf<float> : TypeIs<bits::Minifloat<8, 23, 127, bits::Top::kInfinity>> {};

template <class T>
PTO_INLINE double largest_number() {
  if constexpr (kSame<T, double>)
    return 0x1.fffffffffffffp1023;
  else
    return double(bit_cast<float>(GridOf<T>::type::kMaxFloat));
}

// Counts the bits of a source with P bits of fraction that T has no room for at these exponents.
template <class T, int P, class I>
PTO_INLINE I lost_bits(I exponent, I is_subnormal) {
  using Grid = typename GridOf<T>::type;
  if constexpr (kSame<Grid, bits::HiF8>) {
    return P - Grid::width(exponent);
  } else if constexpr (kSame<Grid, bits::E8M0>) {
    return P + is_subnormal;
  } else {
    const I below = Grid::kLeastExponent - exponent;
    return (P - Grid::kMantissa) + select(below > 0, below, I{});
  }
}

// Returns the summand of the lost bits whose carry is the rounding. `odd` is the last kept bit.
template <class U>
PTO_INLINE U rounding_carry(RoundMode mode, U half, U odd, U is_negative) {
  const U all = half + half - 1;
  switch (mode) {
    case RoundMode::CAST_ROUND:
      return half;
    case RoundMode::CAST_FLOOR:
      return all & is_negative;
    case RoundMode::CAST_CEIL:
      return all & ~is_negative;
    case RoundMode::CAST_ODD:
      return half - odd;
    case RoundMode::CAST_TRUNC:
      return U{};
    default:
      return half - 1 + odd;
  }
}

// Rounds x, float or double, to a number of T or to infinity or NaN.
template <class T, class V>
PTO_INLINE V round_to_grid(V x, RoundMode mode, SaturationMode sat) {
  using Grid = typename GridOf<T>::type;
  using I = MaskOf<V>;
  using U = Vec<UnsignedOf<LaneOf<I>>, kCount<V>>;
  constexpr int P = kIsF32<V> ? 23 : 52, kBias = kIsF32<V> ? 127 : 1023, kBits = 8 * sizeof(U{}[0]);
  const U one = U{} + 1, all = bit_cast<U>(x), sign = all & (one << (kBits - 1));
  const U size = all ^ sign, field = size >> P, is_negative = U{} - (sign >> (kBits - 1));
  const U infinity = bit_cast<U>(splat<V>(LaneOf<V>(__builtin_inf())));
  const I is_subnormal = I(field == 0);
  // The source's significand, and where its last kept bit is. A shift beyond all bits keeps none.
  const U significand = (size & ((one << P) - 1)) | select(is_subnormal, U{}, one << P);
  const I exponent = bit_cast<I>(field) - is_subnormal - kBias;
  const I lost = lost_bits<T, P>(exponent, is_subnormal);
  const U drop = bit_cast<U>(select(lost > P + 2, I{} + (P + 2), lost));
  const U half = one << (drop - 1), rest_mask = (one << drop) - 1;
  U odd = (significand >> drop) & 1;
  // Where HiFloat8 has powers of two only, their exponents count.
  if constexpr (kSame<Grid, bits::HiF8>)
    odd = select((odd != 0) & (exponent < -15), field & 1, odd);
  const U carry = rounding_carry(mode, half, odd, is_negative);
  const U up = ((significand & rest_mask) + carry) >> drop;
  // Below T's smallest number the result is that number or zero.
  const double smallest = bit_cast<double>(uint64_t(1023 + Grid::kSmallestExponent) << 52);
  const U least = bit_cast<U>(splat<V>(LaneOf<V>(smallest)));
  U result =
      select(drop > U{} + P, select(up != 0, least, U{}), (size & ~rest_mask) + (up << drop));
  if constexpr (kSame<Grid, bits::E8M0>)
    result = select((result == 0) & (size != 0), one << 22, result);
  // Beyond the largest number the result is that number, or T's value beyond it.
  const U most = bit_cast<U>(splat<V>(LaneOf<V>(largest_number<T>())));
  const U nan = bit_cast<U>(splat<V>(LaneOf<V>(__builtin_nan(""))));
  U beyond = Grid::kTop == bits::Top::kInfinity ? infinity
             : Grid::kTop == bits::Top::kNan    ? nan
                                                : most;
  if (sat == SaturationMode::ON) {
    beyond = most;
  } else if (mode != RoundMode::CAST_RINT && mode != RoundMode::CAST_NONE) {
    const U stays = rounding_carry(mode, one, U{}, is_negative) == 0 ? ~U{} : U{};
    beyond = select((stays != 0) & (size != infinity), most, beyond);
  }
  result = select(result > most, beyond, result);
  return bit_cast<V>(select(size > infinity, all, result | sign));
}

// Round to whole numbers near x: ties away from zero, ties to odd.
template <class V>
PTO_INLINE V round_away(V x) {
  const V whole = trunc(x), rest = abs(x - whole);
  return rest >= splat<V>(LaneOf<V>(0.5)) ? whole + with_sign_of(splat<V>(1), x) : whole;
}
template <class V>
PTO_INLINE V round_odd(V x) {
  const V down = floor(x), half = down * LaneOf<V>(0.5);
  const V odd = half == floor(half) ? down + splat<V>(1) : down;
  return x - down == splat<V>(LaneOf<V>(0.5)) ? odd : rint(x);
}

template <class V>
PTO_INLINE V round_whole(V x, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_RINT:
      return rint(x);
    case RoundMode::CAST_ROUND:
      return round_away(x);
    case RoundMode::CAST_FLOOR:
      return floor(x);
    case RoundMode::CAST_CEIL:
      return ceil(x);
    case RoundMode::CAST_ODD:
      return round_odd(x);
    default:
      return x;  // cut by the conversion
  }
}

// Clamps to the numbers that To, an integer type, holds.
template <class To, class V>
PTO_INLINE auto saturated(V x) {
  using From = LaneOf<V>;
  using C = Compute<To>;
  constexpr C low = kSmallestOf<To>, high = kLargestOf<To>;
  if constexpr (kIsFloat<From>) {
    const V zeroed = select(x != x, V{}, x);
    const V inside =
        min_or_second(max_or_second(zeroed, splat<V>(From(low))), splat<V>(From(high)));
    if constexpr (sizeof(C) < 4 || high < (1 << 20)) {
      return convert<C>(convert<int32_t>(inside));
    } else if constexpr (kIsNative<V> && kIsF32<V> && kSame<C, int32_t>) {
      // The instruction gives the smallest integer for all that does not fit.
      Vec<C, kCount<V>> value;
      asm("vcvttps2dq %1, %0" : "=v"(value) : "v"(x));
      value = select(x >= splat<V>(From(high)), splat<Vec<C, kCount<V>>>(high), value);
      return select(x != x, Vec<C, kCount<V>>{}, value);
    } else {
      // The bound as a float is one beyond, or more; a value that reaches it becomes the largest.
      const auto value = convert<C>(inside);
      const auto above = convert<LaneOf<MaskOf<Vec<C, kCount<V>>>>>(zeroed >= splat<V>(From(high)));
      return select(above, splat<Vec<C, kCount<V>>>(high), value);
    }
  } else {
    // Bounds in From; where From does not reach a bound, From's own limit takes its place.
    constexpr bool kTakesLow =
        kIsSigned<From> && (!kIsSigned<C> || sizeof(C) < sizeof(From) || low > C(lowest<C>()));
    constexpr bool kTakesHigh =
        8 * sizeof(C) - kIsSigned<C> < 8 * sizeof(From) - kIsSigned<From> || high < highest<C>();
    if constexpr (kTakesLow) x = select(x < splat<V>(From(low)), splat<V>(From(low)), x);
    if constexpr (kTakesHigh) x = select(x > splat<V>(From(high)), splat<V>(From(high)), x);
    return convert<C>(x);
  }
}

// Converts a 64-bit integer to a double in any mode.
template <class E>
double integer_to_double(E x, RoundMode mode) {
  __extension__ typedef __int128 Wide;  // no warning of -Wpedantic
  const double nearest = double(x);
  const Wide error = Wide(nearest) - x;
  if (error == 0) return nearest;
  const int64_t raw = bit_cast<int64_t>(nearest), away = nearest > 0 ? 1 : -1;
  const double other = bit_cast<double>(raw + (error > 0 ? -away : away));
  const bool is_tie = error + (Wide(other) - x) == 0;
  bool takes_other = false;
  if (mode == RoundMode::CAST_FLOOR) takes_other = error > 0;
  if (mode == RoundMode::CAST_CEIL) takes_other = error < 0;
  if (mode == RoundMode::CAST_TRUNC) takes_other = (error > 0) == (nearest > 0);
  if (mode == RoundMode::CAST_ODD) takes_other = is_tie;
  if (mode == RoundMode::CAST_ROUND)
    takes_other = is_tie && __builtin_fabs(other) > __builtin_fabs(nearest);
  return takes_other ? other : nearest;
}

// Clamps to the largest numbers that both types hold; NaN stays.
template <class From, class To, class V>
PTO_INLINE V clamped(V v) {
  const double from = largest_number<From>(), to = largest_number<To>();
  const V most = splat<V>(LaneOf<V>(from < to ? from : to));
  return max_or_second(-most, min_or_second(most, v));
}

// Converts Compute<From> to Compute<To> where To is a float.
template <class From, class To, class V>
PTO_INLINE Vec<Compute<To>, kCount<V>> round_to_float(V v, RoundMode mode, SaturationMode sat) {
  constexpr bool kIsWide = sizeof(Compute<From>) >= 4 && !kSame<Compute<From>, float>;
  Vec<Compute<To>, kCount<V>> result;
  if constexpr (kSame<To, double> && !kIsFloat<From> && sizeof(From) == 8) {
    for (int i = 0; i < kCount<V>; ++i) result[i] = integer_to_double(v[i], mode);
  } else if constexpr (kSame<To, double> || (kSame<To, float> && !kIsWide)) {
    result = convert<Compute<To>>(v);
  } else if constexpr (kIsWide) {
    result = by_halves(
        [mode, sat](auto part) {
          return convert<float>(round_to_grid<To>(exact_double(part), mode, sat));
        },
        v);
  } else {
    result = round_to_grid<To>(convert<float>(v), mode, sat);
  }
  if constexpr (kIsFloat<From>)
    if (sat == SaturationMode::ON) result = clamped<From, To>(result);
  return result;
}

template <class From, class To, class V>
PTO_INLINE Vec<Compute<To>, kCount<V>> round_lanes(V v, RoundMode mode, SaturationMode sat) {
  if constexpr (kSame<From, mask32> || kSame<To, mask32>) {
    return convert_plainly<From, To>(v);
  } else if constexpr (kIsFloat<To>) {
    return round_to_float<From, To>(v, mode, sat);
  } else if constexpr (kIsFloat<From>) {
    const V whole = round_whole(v, mode);
    if (sat == SaturationMode::ON) return saturated<To>(whole);
    return convert_plainly<From, To>(whole);
  } else {
    if (sat == SaturationMode::ON) return saturated<To>(v);
    return convert_plainly<From, To>(v);
  }
}

// The commonest modes have loops of their own; the others share a function on one vector.
template <class D, class S>
__attribute__((noinline)) void convert_by_mode(D& d, const S& s, RoundMode mode,
                                               SaturationMode sat) {
  using From = typename S::DType;
  using To = typename D::DType;
  constexpr bool kIsClamped = kIsFloat<From> && kSame<Compute<From>, Compute<To>>;
  constexpr bool kIsCut = kIsFloat<From> && !kIsFloat<To> && !kSame<To, mask32>;
  if (is_plain<From, To>(mode, sat)) {
    map([](auto v) { return convert_plainly<From, To>(v); }, d, s);
    return;
  }
  if constexpr (kIsClamped) {
    if (is_plain<From, To>(mode, SaturationMode::OFF)) {
      map([](auto v) { return clamped<From, To>(v); }, d, s);
      return;
    }
  } else if constexpr (kIsCut) {
    if (mode == RoundMode::CAST_RINT && sat == SaturationMode::OFF) {
      map([](auto v) { return convert_plainly<From, To>(rint(v)); }, d, s);
      return;
    }
    if (mode == RoundMode::CAST_RINT) {
      map([](auto v) { return saturated<To>(rint(v)); }, d, s);
      return;
    }
  }
  map(
      [ mode, sat ](auto v)
          __attribute__((noinline)) { return round_lanes<From, To>(v, mode, sat); },
      d, s);
}

// --- pairs -------------------------------------------------------------------------------------

// Pack N numbers into N / 2 bytes and back, the first of two in the low half.
template <class Pair, int N>
PTO_INLINE Vec<uint8_t, N / 2> pack_pairs(Vec<float, N> v) {
  using Format = typename Pair::Format;
  const auto codes = convert<uint8_t>(Format::template encode<Vec<float, N>, Vec<uint32_t, N>>(v));
  const auto both = bit_cast<Vec<uint16_t, N / 2>>(codes);
  return convert<uint8_t>((both | both >> 4) & 0xff);
}
template <class Pair, int N>
PTO_INLINE Vec<float, N> unpack_pairs(Vec<uint8_t, N / 2> bytes) {
  using Format = typename Pair::Format;
  const auto both = convert<uint16_t>(bytes);
  const auto codes = bit_cast<Vec<uint8_t, N>>(Vec<uint16_t, N / 2>((both | both << 4) & 0x0f0f));
  return Format::template decode<Vec<float, N>>(convert<uint32_t>(codes));
}

// Packs n numbers at s into pairs at d. Where n is odd the last byte keeps its high half.
template <class Pair, class S>
inline void pack_row(uint8_t* d, const S* s, int n, RoundMode mode, SaturationMode sat) {
  constexpr int N = kLanes<float>;
  const bool is_nearest = mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_NONE;
  int i = 0;
  for (; is_nearest && i + N <= n; i += N)
    store<N / 2>(d + i / 2, pack_pairs<Pair, N>(convert<float>(load<N>(s + i))));
  for (; i < n; i += N) {
    const int count = n - i < N ? n - i : N;
    const auto x = convert<float>(load_part<N>(s + i, count));
    auto bytes = pack_pairs<Pair, N>(round_to_grid<Pair>(x, mode, sat));
    if (count % 2)
      bytes[count / 2] = uint8_t((bytes[count / 2] & 15) | (d[(i + count) / 2] & 0xf0));
    store_part<N / 2>(d + i / 2, bytes, (count + 1) / 2);
  }
}

template <class Pair, class D>
inline void unpack_row(D* d, const uint8_t* s, int n, RoundMode mode, SaturationMode sat) {
  constexpr int N = kLanes<float>;
  int i = 0;
  if constexpr (kIsFloat<D>)  // which holds every number of a pair
    for (; i + N <= n; i += N)
      store<N>(d + i, convert<Compute<D>>(unpack_pairs<Pair, N>(load<N / 2>(s + i / 2))));
  for (; i < n; i += N) {
    const int count = n - i < N ? n - i : N;
    const auto x = unpack_pairs<Pair, N>(load_part<N / 2>(s + i / 2, (count + 1) / 2));
    store_part<N>(d + i, round_lanes<float, D>(x, mode, sat), count);
  }
}

template <class D, class S>
inline void convert_pairs(D& d, const S& s, RoundMode mode, SaturationMode sat) {
  using From = typename S::DType;
  using To = typename D::DType;
  constexpr bool kPacks = kIsTwin<To>;
  using Pairs = typename Choose<kPacks, D, S>::type;
  using Numbers = typename Choose<kPacks, S, D>::type;
  // A tile of pairs counts bytes, or numbers: then rows are packed one behind the other.
  constexpr bool kCountsNumbers = Pairs::Cols == Numbers::Cols;
  constexpr int kRowBytes = kCountsNumbers ? Numbers::Cols / 2 : Pairs::Cols;
  const int columns = d.GetValidCol(), n = kPacks && !kCountsNumbers ? 2 * columns : columns;
  for (int r = 0; r < d.GetValidRow(); ++r) {
    if constexpr (kPacks)
      pack_row<To>(reinterpret_cast<uint8_t*>(d.data()) + r * kRowBytes,
                   s.data() + r * Numbers::Cols, n < s.GetValidCol() ? n : s.GetValidCol(), mode,
                   sat);
    else
      unpack_row<From>(d.data() + r * Numbers::Cols,
                       reinterpret_cast<const uint8_t*>(s.data()) + r * kRowBytes, n, mode, sat);
  }
}

}  // namespace lanes
PTO_NAMESPACE_END
