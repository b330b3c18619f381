// SPDX-License-Identifier: Apache-2.0
// Comparison and selection.
//
//     TCMP(mask, a, b, CmpMode::LT);   TSEL(d, mask, a, b);      // mask of mask32 or packed bits
//     TCMPS(mask, a, 0.0f, CmpMode::GT);  TSELS(d, mask, a, tmp, 1.0f);
//
// Invariant: a mask32 tile has the shape of the operands, a lane per element. A mask of uint8_t or
// uint32_t is packed: bit k of word w of row r belongs to column w * bits + k, least significant
// bit first, each row on a new word; TCMP clears the words that it does not fill. TSEL reads the
// valid bytes of a packed mask as one stream of bits.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise.hpp"

PTO_NAMESPACE_BEGIN
namespace lanes {
#define PTO_COMPARE(mode, op, value, numpy, types) \
  struct mode##_value {                            \
    template <class V>                             \
    static PTO_INLINE MaskOf<V> apply(V a, V b) {  \
      return value;                                \
    }                                              \
  };
#include "pto/isa/instructions.def"
}  // namespace lanes

template <class T>
constexpr bool kIsMask = kSame<T, mask32>;

namespace detail {

template <CmpMode Mode, class V>
PTO_INLINE lanes::MaskOf<V> compare(V a, V b) {
#define PTO_COMPARE(mode, op, value, numpy, types) \
  if constexpr (Mode == CmpMode::mode) return lanes::mode##_value::apply(a, b);
#include "pto/isa/instructions.def"
}

// Packed form: `bit_of(row, col)` fills the mask row by row.
template <class D, class Bit>
PTO_INLINE void pack_bits(D& mask, int rows, int cols, Bit bit_of) {
  using Word = typename D::DType;
  constexpr int kBits = 8 * sizeof(Word);
  static_assert(D::isRowMajor && (kSame<Word, uint8_t> || kSame<Word, uint32_t>),
                "TCMP: the mask must be mask32, or row-major uint8_t or uint32_t");
  for (int i = 0; i < D::Numel; ++i) mask.data()[i] = 0;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      if (bit_of(r, c)) mask.data()[D::Offset(r, c / kBits)] |= Word(Word(1) << (c % kBits));
}

template <CmpMode Mode, class T>
PTO_INLINE bool compare_elements(T a, T b) {
  using V = Vec<Compute<T>, 2>;
  return compare<Mode>(lanes::splat<V>(to_compute(a)), lanes::splat<V>(to_compute(b)))[0] != 0;
}

template <CmpMode Mode, class D, class A, class B>
PTO_INLINE void compare_tiles(D& d, const A& a, const B& b) {
  static_assert(kSame<typename A::DType, typename B::DType>,
                "TCMP: both operands must have the same element type; convert one with TCVT");
  if constexpr (kIsMask<typename D::DType>) {
    static_assert(check_elementwise<D, A, B>());
    map([](auto x, auto y) { return lanes::convert<int32_t>(compare<Mode>(x, y)); }, d, a, b);
  } else {
    pack_bits(d, a.GetValidRow(), a.GetValidCol(), [&](int r, int c) {
      return compare_elements<Mode>(a.GetElement(r, c), b.GetElement(r, c));
    });
  }
}

template <CmpMode Mode, class D, class A>
PTO_INLINE void compare_scalar(D& d, const A& a, typename A::DType scalar) {
  if constexpr (kIsMask<typename D::DType>) {
    static_assert(check_elementwise<D, A>());
    const auto s = to_compute(scalar);
    map(
        [s](auto x) {
          return lanes::convert<int32_t>(compare<Mode>(x, lanes::splat<decltype(x)>(s)));
        },
        d, a);
  } else {
    pack_bits(d, a.GetValidRow(), a.GetValidCol(),
              [&](int r, int c) { return compare_elements<Mode>(a.GetElement(r, c), scalar); });
  }
}

// Bit i of the stream of a packed mask's valid bytes.
template <class M>
PTO_INLINE bool stream_bit(const M& mask, int i) {
  const int row_bytes = mask.GetValidCol() * int(sizeof(typename M::DType));
  const int byte = i / 8;
  const auto* row = reinterpret_cast<const uint8_t*>(mask.data() + M::Offset(byte / row_bytes, 0));
  return (row[byte % row_bytes] >> (i % 8)) & 1;
}
template <class M>
PTO_INLINE bool row_bit(const M& mask, int row, int col) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(mask.data() + M::Offset(row, 0));
  return (bytes[col / 8] >> (col % 8)) & 1;
}

template <class M, class V>
PTO_INLINE V choose(M mask, V a, V b) {
  return lanes::select(lanes::convert<LaneOf<lanes::MaskOf<V>>>(mask), a, b);
}

}  // namespace detail

// The mode as a template argument compiles fastest.
template <CmpMode Mode, class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCMP(D& d, const A& a, const B& b, const X&...) {
  static_assert(check_trailing<X...>());
  PTO_ENTER(TCMP, "d, a, b, mode", out(d), in(a, b));
  detail::compare_tiles<Mode>(d, a, b);
  return {};
}
template <class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCMP(D& d, const A& a, const B& b, CmpMode mode, const X&...) {
  static_assert(check_trailing<X...>());
  PTO_ENTER(TCMP, "d, a, b, mode", out(d), in(a, b));
  switch (mode) {
#define PTO_COMPARE(name, op, value, numpy, types) \
  case CmpMode::name:                              \
    detail::compare_tiles<CmpMode::name>(d, a, b); \
    break;
#include "pto/isa/instructions.def"
  }
  return {};
}

// Against a scalar, or element by element against a tile.
template <class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCMPS(D& d, const A& a, const B& b, CmpMode mode, const X&... rest) {
  static_assert(check_trailing<X...>());
  if constexpr (kIsTile<B>) {
    PTO_ENTER(TCMPS, "d, a, tile b, mode", out(d), in(a, b));
    return TCMP(d, a, b, mode, rest...);
  } else {
    PTO_ENTER(TCMPS, "d, a, scalar, mode", out(d), in(a));
    switch (mode) {
#define PTO_COMPARE(name, op, value, numpy, types)  \
  case CmpMode::name:                               \
    detail::compare_scalar<CmpMode::name>(d, a, b); \
    break;
#include "pto/isa/instructions.def"
    }
    return {};
  }
}

// d = mask ? a : b.
template <class D, class M, class A, class B, class... X>
PTO_INLINE RecordEvent TSEL(D& d, const M& mask, const A& a, const B& b, const X&...) {
  static_assert(check_elementwise<D, A, B>());
  static_assert(check_trailing<X...>());
  PTO_ENTER(TSEL, "d, mask, a, b", out(d), in(mask, a, b));
  if constexpr (kIsMask<typename M::DType>) {
    static_assert(check_elementwise<D, M>());
    map([](auto m, auto x, auto y) { return detail::choose(m, x, y); }, d, mask, a, b);
  } else {
    const int cols = d.GetValidCol();
    for (int r = 0; r < d.GetValidRow(); ++r)
      for (int c = 0; c < cols; ++c)
        d.SetElement(
            r, c, detail::stream_bit(mask, r * cols + c) ? a.GetElement(r, c) : b.GetElement(r, c));
  }
  return {};
}

// d = mask ? a : scalar; a packed mask restarts in every row.
template <class D, class M, class A, class Tmp, class... X>
PTO_INLINE RecordEvent TSELS(D& d, const M& mask, const A& a, const Tmp&, typename D::DType scalar,
                             const X&...) {
  static_assert(check_elementwise<D, A>());
  static_assert(check_trailing<Tmp, X...>());
  PTO_ENTER(TSELS, "d, mask, a, tmp, scalar", out(d), in(mask, a));
  if constexpr (kIsMask<typename M::DType>) {
    static_assert(check_elementwise<D, M>());
    const auto s = to_compute(scalar);
    map([s](auto m, auto x) { return detail::choose(m, x, lanes::splat<decltype(x)>(s)); }, d, mask,
        a);
  } else {
    for (int r = 0; r < d.GetValidRow(); ++r)
      for (int c = 0; c < d.GetValidCol(); ++c)
        d.SetElement(r, c, detail::row_bit(mask, r, c) ? a.GetElement(r, c) : scalar);
  }
  return {};
}

PTO_NAMESPACE_END
