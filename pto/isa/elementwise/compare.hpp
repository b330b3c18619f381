// SPDX-License-Identifier: Apache-2.0
// Compare: comparison and selection.
//
//     TCMP(mask, a, b, CmpMode::LT);          // mask: a tile of mask32 or of packed bits
//     TSEL(d, mask, a, b);
//     TCMPS(mask, a, 0.0f, CmpMode::GT);
//     TSELS(d, mask, a, tmp, 1.0f);
//
// A mask32 tile has the shape of the operands, a lane per element. A mask of uint8_t or uint32_t is
// packed: bit k of word w of row r belongs to column w * bits + k, least significant bit first,
// each row on a new word.
//
// Invariant: TCMP clears the words of a packed mask that it does not fill; TSEL reads the mask's
// valid bytes as one stream of bits.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/elementwise/packed_mask.hpp"

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

// A comparison that is known when the kernel is compiled, or one chosen by a number inside the
// loop, so that there is one loop; a constant folds.
template <CmpMode Mode>
struct Comparison {
  template <class V>
  PTO_INLINE lanes::MaskOf<V> operator()(V a, V b) const {
#define PTO_COMPARE(mode, op, value, numpy, types) \
  if constexpr (Mode == CmpMode::mode) return lanes::mode##_value::apply(a, b);
#include "pto/isa/instructions.def"
  }
};
struct ComparisonBy {
  CmpMode chosen;
  template <class V>
  PTO_INLINE lanes::MaskOf<V> operator()(V a, V b) const {
    switch (chosen) {
#define PTO_COMPARE(mode, op, value, numpy, types) \
  case CmpMode::mode:                              \
    return lanes::mode##_value::apply(a, b);
#include "pto/isa/instructions.def"
    }
    return lanes::MaskOf<V>{};
  }
};

// Writes the bits of f(a, b) for TileRows or Everywhere.
template <class F, class D, class A, class B>
PTO_INLINE void compare_packed(F f, D& mask, int rows, int cols, A a, B b) {
  using T = typename A::T;
  constexpr int N =
      fewest(kSame<Raw<T>, Compute<T>> ? kVectorBytes / int(sizeof(T)) : kLanes<T>, 32);
  constexpr int kStep = 4 * N < 8 ? 8 : fewest(4 * N, 64);
  const auto bits_of = [=](int r, int c, int n) {
    return uint64_t(lanes::pack_mask(f(lanes::widen<T, N>(a.template part<N>(r, c, n)),
                                       lanes::widen<T, N>(b.template part<N>(r, c, n)))));
  };
  write_packed<kStep>(mask, rows, cols, [=](int r, int c, int n) {
    uint64_t bits = 0;
    if (n == kStep) {
      PTO_UNROLL
      for (int k = 0; k < kStep; k += N) bits |= bits_of(r, c + k, N) << k;
    } else {
      for (int k = 0; k < n; k += N) bits |= bits_of(r, c + k, n - k) << k;
    }
    return bits;
  });
}

// Computes d = bit ? a : b for TileRows or Everywhere, by the bits of `mask` as one stream, or anew
// in every row.
template <bool PerRow, class D, class M, class A, class B>
PTO_INLINE void select_packed(D& d, const M& mask, A a, B b) {
  constexpr int N = kVectorBytes / int(sizeof(typename A::T)), kRest = N < 32 ? N : 32;
  const int cols = d.GetValidCol();
  const TileRows<D> to(d);
  BitStream<M> bits(mask);
  for (int r = 0; r < d.GetValidRow(); ++r) {
    if (PerRow) bits = BitStream<M>(mask, r);
    int c = 0;
    if constexpr (N % 8 == 0) {
      const int whole = cols - cols % N;
      if (const uint8_t* bytes = bits.whole_bytes(whole))
        for (; c < whole; c += N) {
          uint64_t word = 0;
          __builtin_memcpy(&word, bytes + c / 8, N / 8);
          to.template set_part<N>(r, c, N,
                                  lanes::select_by_bits(word, a.template part<N>(r, c, N),
                                                        b.template part<N>(r, c, N)));
        }
    }
    for (; c < cols; c += kRest) {
      const int n = cols - c < kRest ? cols - c : kRest;
      to.template set_part<kRest>(
          r, c, n,
          lanes::select_by_bits(bits.next(n), a.template part<kRest>(r, c, n),
                                b.template part<kRest>(r, c, n)));
    }
  }
}

template <class F, class D, class A, class B>
PTO_INLINE void compare_tiles(F f, D& d, const A& a, const B& b) {
  static_assert(kSame<typename A::DType, typename B::DType>,
                "TCMP: both operands must have the same element type; convert one with TCVT");
  if constexpr (kIsMask<typename D::DType>) {
    static_assert(check_elementwise<D, A, B>());
    PTO_IF_CHECKED(checked::require_covered("TCMP", "d, a, b, mode", d, a, b);)
    map([f](auto x, auto y) { return lanes::convert<int32_t>(f(x, y)); }, d, a, b);
  } else {
    static_assert(check_rows<A, B>() && check_columns<A, B>());
    PTO_IF_CHECKED(checked::require_covered("TCMP", "d, a, b, mode", a, a, b);)
    compare_packed(f, d, a.GetValidRow(), a.GetValidCol(), TileRows<const A>(a),
                   TileRows<const B>(b));
  }
}

template <class F, class D, class A>
PTO_INLINE void compare_scalar(F f, D& d, const A& a, typename A::DType scalar) {
  if constexpr (kIsMask<typename D::DType>) {
    static_assert(check_elementwise<D, A>());
    PTO_IF_CHECKED(checked::require_covered("TCMPS", "d, a, scalar, mode", d, a);)
    const auto s = to_compute(scalar);
    map([f, s](auto x) { return lanes::convert<int32_t>(f(x, lanes::splat<decltype(x)>(s))); }, d,
        a);
  } else {
    const TileRows<const A> from(a);
    const Everywhere<typename A::DType> value(scalar);
    const int rows = a.GetValidRow(), cols = a.GetValidCol();
    MaskBytes<A::Rows, (A::Cols + 7) / 8> bytes;
    if (d.GetValidCol() * int(sizeof(typename D::DType)) <= bytes.Cols)
      return compare_packed(f, d, rows, cols, from, value);
    compare_packed(f, bytes, rows, cols, from, value);
    pour(d, bytes);
  }
}

template <class M, class V>
PTO_INLINE V choose(M mask, V a, V b) {
  return lanes::select(lanes::convert<LaneOf<lanes::MaskOf<V>>>(mask), a, b);
}

}  // namespace detail

// The mode as a template argument compiles fastest.
template <CmpMode Mode, class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCMP(D& d, const A& a, const B& b, const X&...) {
  PTO_INSTRUCTION(TCMP, "d, a, b, mode", out(d), in(a, b));
  detail::compare_tiles(detail::Comparison<Mode>{}, d, a, b);
  return {};
}
template <class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCMP(D& d, const A& a, const B& b, CmpMode mode, const X&...) {
  PTO_INSTRUCTION(TCMP, "d, a, b, mode", out(d), in(a, b));
  detail::compare_tiles(detail::ComparisonBy{mode}, d, a, b);
  return {};
}

// Compares with a scalar, or element by element with a tile. With a scalar, a packed mask whose
// rows have more valid bytes than the operand's columns need takes the rows as one stream of bytes.
template <class D, class A, class B, class... X>
PTO_INLINE RecordEvent TCMPS(D& d, const A& a, const B& b, CmpMode mode, const X&... rest) {
  static_assert(check_trailing<X...>());
  if constexpr (kIsTile<B>) {
    PTO_ENTER(TCMPS, "d, a, tile b, mode", out(d), in(a, b));
    return TCMP(d, a, b, mode, rest...);
  } else {
    PTO_ENTER(TCMPS, "d, a, scalar, mode", out(d), in(a));
    detail::compare_scalar(detail::ComparisonBy{mode}, d, a, b);
    return {};
  }
}

// Computes d = mask ? a : b.
template <class D, class M, class A, class B, class... X>
PTO_INLINE RecordEvent TSEL(D& d, const M& mask, const A& a, const B& b, const X&...) {
  static_assert(check_elementwise<D, A, B>());
  PTO_INSTRUCTION(TSEL, "d, mask, a, b", out(d), in(mask, a, b));
  if constexpr (kIsMask<typename M::DType>) {
    static_assert(check_elementwise<D, M>());
    PTO_IF_CHECKED(checked::require_covered("TSEL", "d, mask, a, b", d, mask, a, b);)
    map([](auto m, auto x, auto y) { return detail::choose(m, x, y); }, d, mask, a, b);
  } else {
    PTO_IF_CHECKED(checked::require_covered("TSEL", "d, mask, a, b", d, d, a, b);)
    detail::select_packed<false>(d, mask, detail::TileRows<const A>(a),
                                 detail::TileRows<const B>(b));
  }
  return {};
}

// An older order of operands: tmp, of another type, before b.
template <class D, class M, class A, class Tmp, class B,
          typename Enable<Rules::kTakesTemporaryBeforeLast &&
                          !kSame<typename Tmp::DType, typename D::DType> &&
                          kSame<typename B::DType, typename D::DType>>::type = 0>
PTO_INLINE RecordEvent TSEL(D& d, const M& mask, const A& a, const Tmp&, const B& b) {
  return TSEL(d, mask, a, b);
}

// Computes d = mask ? a : scalar; a packed mask restarts in every row.
template <class D, class M, class A, class Tmp, class... X>
PTO_INLINE RecordEvent TSELS(D& d, const M& mask, const A& a, const Tmp&, typename D::DType scalar,
                             const X&...) {
  static_assert(check_elementwise<D, A>());
  static_assert(check_trailing<Tmp, X...>());
  PTO_ENTER(TSELS, "d, mask, a, tmp, scalar", out(d), in(mask, a));
  if constexpr (kIsMask<typename M::DType>) {
    static_assert(check_elementwise<D, M>());
    PTO_IF_CHECKED(checked::require_covered("TSELS", "d, mask, a, tmp, scalar", d, mask, a);)
    const auto s = to_compute(scalar);
    map([s](auto m, auto x) { return detail::choose(m, x, lanes::splat<decltype(x)>(s)); }, d, mask,
        a);
  } else {
    static_assert(check_rows<D, M>());
    PTO_IF_CHECKED(checked::require_covered("TSELS", "d, mask, a, tmp, scalar", d, d, a);)
    detail::select_packed<true>(d, mask, detail::TileRows<const A>(a),
                                detail::Everywhere<typename D::DType>(scalar));
  }
  return {};
}

PTO_NAMESPACE_END
