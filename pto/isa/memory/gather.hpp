// SPDX-License-Identifier: Apache-2.0
// Gather and scatter within tiles: by index, by pattern, by comparison, by blocks of 32 bytes.
//
//     TGATHER(d, s, index, tmp);                            // d[i, j] = s.flat[index[i, j]]
//     TGATHER<D, S, MaskPattern::P0101>(d, s);              // every second column
//     TGATHER<I, S, K, C, Tmp, CmpMode::GT>(positions, s, k, count, tmp, 0);   // where s > k
//     TSCATTER(d, s, index);                                // d.flat[index[i, j]] = s[i, j]
//     TGATHERB(d, s, offsets);                              // 32 bytes from each byte offset
//
// Invariant: a flat index counts the logical elements of the whole tile row by row, Rows x Cols.
// An index outside the tile reads 0 and writes nothing. The last writer wins.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/cpu/shuffle.hpp"
#include "pto/isa/cpu/transpose.hpp"
#include "pto/isa/elementwise/compare.hpp"

PTO_NAMESPACE_BEGIN

// Selects among each two or four elements, the first one as the rightmost digit.
enum class MaskPattern : uint8_t {
  P0101 = 1,
  P1010 = 2,
  P0001 = 3,
  P0010 = 4,
  P0100 = 5,
  P1000 = 6,
  P1111 = 7
};
enum GatherAxis { GATHER_ROW, GATHER_COL };
enum ScatterAxis { SCATTER_ROW, SCATTER_COL };

namespace detail {

// A pattern as element kStep * k + kFirst.
template <MaskPattern P>
constexpr int kPatternStep = P == MaskPattern::P1111                              ? 1
                             : P == MaskPattern::P0101 || P == MaskPattern::P1010 ? 2
                                                                                  : 4;
template <MaskPattern P>
constexpr int kPatternFirst = P == MaskPattern::P1010   ? 1
                              : P == MaskPattern::P0010 ? 1
                              : P == MaskPattern::P0100 ? 2
                              : P == MaskPattern::P1000 ? 3
                                                        : 0;

// Converts a flat index to an offset; they are equal where rows follow each other without boxes.
template <class S>
PTO_INLINE int offset_of_flat(int64_t flat) {
  if constexpr (kIsRows<S>)
    return int(flat);
  else
    return S::Offset(int(flat) / S::Cols, int(flat) % S::Cols);
}

// True where an index, signed or not, is below `count`.
template <class I>
PTO_INLINE bool is_inside(I index, int64_t count) {
  return uint64_t(int64_t(index)) < uint64_t(count);
}

template <class D, class S, class I>
constexpr bool check_indexed() {
  static_assert(kSame<typename D::DType, typename S::DType>,
                "TGATHER, TSCATTER: source and destination must have the same element type; "
                "convert with TCVT");
  static_assert(!kIsFloat<typename I::DType> && kSame<typename I::DType, Raw<typename I::DType>>,
                "TGATHER, TSCATTER: indices must be integers; convert with TCVT");
  return true;
}

// Loads every kStep-th element of n x kStep, from p on.
template <int Step, int N, class R>
PTO_INLINE Vec<R, N> load_every(const R* p) {
  using Loose = typename VecOf<R, N>::loose;
  const auto at = [p](int i) { return Vec<R, N>(reinterpret_cast<const Loose*>(p)[i]); };
  if constexpr (Step == 1)
    return at(0);
  else if constexpr (Step == 2)
    return lanes::unzip_even(at(0), at(1));
  else
    return lanes::unzip_even(lanes::unzip_even(at(0), at(1)), lanes::unzip_even(at(2), at(3)));
}

// Copies the bits of `count` elements of the source, Step apart; the last vector would read beyond.
template <int Step, class D, class S>
PTO_INLINE void take_every(D* d, const S* s, int count) {
  using R = moves::Bits<int(sizeof(D))>;
  constexpr int N = kVectorBytes / int(sizeof(R));
  int i = 0;
  for (; i + N < count; i += N)
    *reinterpret_cast<typename VecOf<R, N>::loose*>(d + i) =
        load_every<Step, N>(reinterpret_cast<const R*>(s + i * Step));
  for (; i < count; ++i) d[i] = bit_cast<D>(s[i * Step]);
}

template <MaskPattern P, class D, class S>
PTO_INLINE void gather_columns(D& d, const S& s) {
  constexpr int kStep = kPatternStep<P>, kFirst = kPatternFirst<P>;
  const int cols = s.GetValidCol(), count = (cols - kFirst + kStep - 1) / kStep;
  int k = 0;
  for (int r = 0; r < s.GetValidRow() && count > 0; ++r) {
    const int n = count < D::Numel - k ? count : D::Numel - k;
    if constexpr (kIsRows<D, S>)
      take_every<kStep>(d.data() + k, s.data() + S::Offset(r, kFirst), n);
    else
      for (int i = 0; i < n; ++i)
        d.SetValue(offset_of_flat<D>(k + i),
                   bit_cast<typename D::DType>(s.GetElement(r, kFirst + i * kStep)));
    k += n;
  }
}

template <MaskPattern P, class D, class S>
PTO_INLINE void gather_rows(D& d, const S& s) {
  constexpr int kStep = kPatternStep<P>, kFirst = kPatternFirst<P>;
  const int cols = s.GetValidCol() < D::Cols ? s.GetValidCol() : D::Cols;
  for (int r = kFirst, to = 0; r < s.GetValidRow() && to < D::Rows; r += kStep, ++to)
    for (int c = 0; c < cols; ++c)
      d.SetElement(to, c, bit_cast<typename D::DType>(s.GetElement(r, c)));
}

// Appends the positions of the set bits to d while there is room; returns their number.
template <class I>
PTO_INLINE int append_positions(I* d, int room, uint32_t hits, int first) {
  const int all = __builtin_popcount(hits);
  for (int i = 0; i < all && i < room; ++i, hits &= hits - 1) d[i] = I(first + __builtin_ctz(hits));
  return all;
}

template <CmpMode Mode, class D, class S, class K, class C>
PTO_INLINE void gather_where(D& d, const S& s, const K& k, C& counts, int offset) {
  using T = typename S::DType;
  constexpr int N = kLanes<T>;
  using V = Vec<Compute<T>, N>;
  using I = typename D::DType;
  for (int r = 0; r < s.GetValidRow(); ++r) {
    const V limit = lanes::splat<V>(to_compute(k.GetElement(r < k.GetValidRow() ? r : 0, 0)));
    const T* row = s.data() + S::Offset(r, 0);
    I* to = d.data() + D::Offset(r, 0);
    const int room = d.GetValidCol(), cols = s.GetValidCol();
    int count = 0;
    for (int c = 0; c < cols; c += N) {
      const int n = cols - c < N ? cols - c : N;
      const V values = n == N ? lanes::load<N>(row + c) : lanes::load_part<N>(row + c, n);
      const uint32_t hits =
          lanes::pack_mask(Comparison<Mode>{}(values, limit)) & uint32_t(lanes::low_bits(n));
      if (hits == 0) continue;
      const int left = room - count;
      count += append_positions(to + (left > 0 ? count : 0), left, hits, c + offset);
    }
    counts.SetElement(r, 0, typename C::DType(count));
  }
}

}  // namespace detail

// d gets s's elements at flat indices.
template <class D, class S, class I, class Tmp, class... X>
PTO_INLINE RecordEvent TGATHER(D& d, const S& s, const I& index, const Tmp&, const X&...) {
  static_assert(detail::check_indexed<D, S, I>());
  static_assert(check_trailing<Tmp, X...>() && check_rows<D, I>() && check_columns<D, I>());
  PTO_ENTER(TGATHER, "d, s, index, tmp", out(d), in(s, index));
  PTO_IF_CHECKED(checked::require_valid("TGATHER", "d, s, index, tmp", 2, d.GetValidRow(),
                                        d.GetValidCol(), index);)
  using T = typename D::DType;
  for (int r = 0; r < d.GetValidRow(); ++r)
    for (int c = 0; c < d.GetValidCol(); ++c) {
      const auto i = index.GetElement(r, c);
      d.SetElement(
          r, c, detail::is_inside(i, S::Numel) ? s.GetValue(detail::offset_of_flat<S>(i)) : T(0));
    }
  return {};
}

// d gets the columns (GATHER_COL: rows) of s that the pattern names, as bits. Columns fill d from
// its first element on, row after row, as the public simulator does; so d's Cols should be their
// number.
template <class D, class S, MaskPattern P = MaskPattern::P1111, auto Axis = GATHER_ROW, class... X>
PTO_INLINE RecordEvent TGATHER(D& d, const S& s, const X&...) {
  static_assert(sizeof(typename D::DType) == sizeof(typename S::DType),
                "TGATHER: elements of both tiles must have the same size; convert with TCVT");
  PTO_INSTRUCTION(TGATHER, "d, s, <pattern, axis>", out(d), in(s));
  if constexpr (int(Axis) == int(GATHER_COL))
    detail::gather_rows<P>(d, s);
  else
    detail::gather_columns<P>(d, s);
  return {};
}

// Row r of d gets the columns c, plus offset, where s[r, c] compares with k[r, 0] (k[0, 0] where k
// has one row), as many as its valid columns hold; count[r, 0] gets their number.
template <class D, class S, class K, class C, class Tmp, CmpMode Mode, class... X>
PTO_INLINE RecordEvent TGATHER(D& d, const S& s, const K& k, C& count, const Tmp&, int offset,
                               const X&...) {
  static_assert(check_trailing<Tmp, X...>());
  static_assert(kSame<typename S::DType, typename K::DType>,
                "TGATHER: the elements and what they compare with must have the same type; convert "
                "with TCVT");
  static_assert(!kIsFloat<typename D::DType> && !kIsFloat<typename C::DType>,
                "TGATHER: positions and counts must be integers; declare their tiles so");
  static_assert(kIsRows<S, D>,
                "TGATHER: tiles must be row-major and unboxed; transpose with TTRANS");
  static_assert(check_rows<S, D, C>());
  PTO_ENTER(TGATHER, "d, s, k, count, tmp, offset, <mode>", out(d), in(s, k), out(count));
  PTO_IF_CHECKED(const char* const form = "d, s, k, count, tmp, offset, <mode>";
                 const int rows = s.GetValidRow(); checked::require_rows("TGATHER", form, 1, d, s);
                 checked::require_rows("TGATHER", form, 2, count, s);
                 checked::require_valid("TGATHER", form, 2, k.GetValidRow() == 1 ? 1 : rows, 1, k);)
  detail::gather_where<Mode>(d, s, k, count, offset);
  return {};
}

// d's block of 32 bytes (r, b) gets the 32 bytes of s at byte off[r, b]; blocks outside s keep d's
// own.
template <class D, class S, class O, class... X>
PTO_INLINE RecordEvent TGATHERB(D& d, const S& s, const O& off, const X&...) {
  static_assert(kSame<typename D::DType, typename S::DType> && kSame<typename O::DType, uint32_t>,
                "TGATHERB: source and destination must have the same element type, and the offsets "
                "must be uint32_t; convert with TCVT");
  static_assert(kIsRows<D> && D::Cols * sizeof(typename D::DType) % 32 == 0,
                "TGATHERB: the destination must be row-major with a multiple of 32 bytes a row; "
                "round Cols up and limit the valid region");
  static_assert(check_rows<D, O>());
  PTO_INSTRUCTION(TGATHERB, "d, s, off", out(d), in(s, off));
  constexpr int kBytes = int(sizeof(typename D::DType));
  const auto* from = reinterpret_cast<const char*>(s.data());
  const int bytes = d.GetValidCol() * kBytes;
  PTO_IF_CHECKED(
      checked::require_valid("TGATHERB", "d, s, off", 2, d.GetValidRow(), (bytes + 31) / 32, off);)
  for (int r = 0; r < d.GetValidRow(); ++r) {
    char* to = reinterpret_cast<char*>(d.data() + D::Offset(r, 0));
    for (int b = 0; 32 * b < bytes; ++b) {
      const uint32_t offset = off.GetElement(r, b);
      if (uint64_t(offset) + 32 > uint64_t(S::Numel) * kBytes) continue;
      const int n = bytes - 32 * b < 32 ? bytes - 32 * b : 32;
      __builtin_memmove(to + 32 * b, from + offset, size_t(n));
    }
  }
  return {};
}

// Writes s to d's elements at flat indices, over the valid region of the indices.
template <class D, class S, class I, class... X>
PTO_INLINE RecordEvent TSCATTER(D& d, const S& s, const I& index, const X&...) {
  static_assert(detail::check_indexed<D, S, I>() && check_rows<I, S>() && check_columns<I, S>());
  PTO_INSTRUCTION(TSCATTER, "d, s, index", out(PTO_PART(d)), in(s, index));
  PTO_IF_CHECKED(checked::require_covered("TSCATTER", "d, s, index", index, s);)
  for (int r = 0; r < index.GetValidRow(); ++r)
    for (int c = 0; c < index.GetValidCol(); ++c) {
      const auto i = index.GetElement(r, c);
      if (!detail::is_inside(i, D::Numel)) continue;
      d.SetValue(detail::offset_of_flat<D>(i), s.GetElement(r, c));
      PTO_IF_CHECKED(checked::note_part(d, int(i) / D::Cols, int(i) % D::Cols, 1, 1);)
    }
  PTO_IF_CHECKED(checked::end_part(d);)
  return {};
}

// Writes s's columns (SCATTER_COL: rows) to the columns of d that the pattern names, 0 to the
// others.
template <MaskPattern P, auto Axis = SCATTER_ROW, class D, class S, class... X>
PTO_INLINE RecordEvent TSCATTER(D& d, const S& s, const X&...) {
  static_assert(
      kSame<typename D::DType, typename S::DType>,
      "TSCATTER: source and destination must have the same element type; convert with TCVT");
  PTO_INSTRUCTION(TSCATTER, "d, s, <pattern, axis>", out(d), in(s));
  constexpr int kStep = detail::kPatternStep<P>, kFirst = detail::kPatternFirst<P>;
  constexpr bool kRows = int(Axis) == int(SCATTER_COL);
  using T = typename D::DType;
  for (int r = 0; r < d.GetValidRow(); ++r)
    for (int c = 0; c < d.GetValidCol(); ++c) {
      const int along = kRows ? r : c, from = along / kStep;
      const bool named =
          along % kStep == kFirst && (kRows ? from < s.GetValidRow() && c < s.GetValidCol()
                                            : from < s.GetValidCol() && r < s.GetValidRow());
      d.SetElement(r, c, !named ? T(0) : kRows ? s.GetElement(from, c) : s.GetElement(r, from));
    }
  return {};
}

PTO_NAMESPACE_END
