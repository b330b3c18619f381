// SPDX-License-Identifier: Apache-2.0
// Reshape: TTRANS, TFILLPAD and its forms, and the instructions that give a tile's storage another
// shape: TSUBVIEW, TRESHAPE, TGET_SCALE_ADDR.
//
//     TTRANS(d, s, tmp);                      // d[j, i] = s[i, j] over the valid region of s
//     TFILLPAD(d, s);                         // s, and d's padding value around it
//     TSUBVIEW(window, s, 16, 0);             // window is a part of s, not a copy
//     TRESHAPE(other, s);                     // the bytes of s as another tile
//
// Invariant: TTRANS and TFILLPAD may work in place. TSUBVIEW, TRESHAPE and TGET_SCALE_ADDR bind a
// tile to the storage of another: it is valid as long as the other one lives, is not copied over
// and is not bound elsewhere; binding it again (TASSIGN) ends that.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/isa/memory/move.hpp"

PTO_NAMESPACE_BEGIN

enum class TFillPadMode : uint8_t { Normal, InPlace, Expand };

namespace moves {

template <class D, class S>
constexpr bool check_same_size() {
  static_assert(sizeof(typename D::DType) == sizeof(typename S::DType),
                "TTRANS, TFILLPAD: elements of both tiles must have the same size; convert with "
                "TCVT");
  return true;
}

template <class D, class S>
constexpr bool check_alias() {
  static_assert(D::Loc == S::Loc,
                "TSUBVIEW, TRESHAPE: both tiles must be in the same location; copy with TMOV");
  static_assert(D::Loc != TileType::Reg,
                "TSUBVIEW, TRESHAPE: a register tile has no storage to share; declare it as "
                "TileType::Vec");
  return true;
}

// Binds d to memory of another element type. The barrier keeps accesses through the two types in
// their order.
template <class D>
PTO_INLINE void bind_bytes(D& d, char* bytes) {
  asm volatile("" : "+r"(bytes) : : "memory");
  d.bind(reinterpret_cast<typename D::DType*>(bytes));
}

template <class D, class S>
PTO_INLINE void fill_pad(D& d, const S& s, typename D::DType padding) {
  if (d.GetValidRow() <= 0 || d.GetValidCol() <= 0) return;
  const int64_t rows = least(s.GetValidRow(), D::Rows), cols = least(s.GetValidCol(), D::Cols);
  if (bytes_of(d.data()) != bytes_of(s.data()) || !kSameLayout<D, S>) {
    const Window w{0, 0, 0, 0, rows, cols};
    const Source<D, S> from(d, s, w, false);
    copy_matrix<kCopied<typename D::DType>>(matrix_of(d), from.matrix, rows, cols);
  }
  fill_outside(d, rows, cols, padding);
}

template <class D, class S, bool MayGrow>
constexpr bool check_fill_pad() {
  static_assert(check_same_size<D, S>());
  static_assert(D::Loc != TileType::Vec || !kSame<decltype(D::PadVal), const PadValue> ||
                    uint64_t(D::PadVal) != uint64_t(PadValue::Null),
                "TFILLPAD: the destination names no padding value; give its type one, such as "
                "PadValue::Zero");
  static_assert(MayGrow ? D::Rows >= S::Rows && D::Cols >= S::Cols : kSameShape<D, S>,
                "TFILLPAD: both tiles must have the same Rows x Cols; use TFILLPAD_EXPAND for a "
                "larger destination");
  return true;
}

}  // namespace moves

template <class D, class S, class... X>
PTO_INLINE RecordEvent TTRANS(D& d, const S& s, const X&...) {
  PTO_INSTRUCTION(TTRANS, "d, s, [tmp]", out(d), in(s));
  static_assert(moves::check_same_size<D, S>());
  using namespace moves;
  const int64_t rows = least(s.GetValidRow(), D::Cols), cols = least(s.GetValidCol(), D::Rows);
  const Source<D, S> from(d, s, {0, 0, 0, 0, rows, cols}, true);
  copy_matrix<kCopied<typename D::DType>>(turned(matrix_of(d)), from.matrix, rows, cols);
  return {};
}

template <TFillPadMode Mode = TFillPadMode::Normal, class D, class S, class... X>
PTO_INLINE RecordEvent TFILLPAD(D& d, const S& s, const X&...) {
  PTO_ENTER(TFILLPAD, "d, s", out(d), in(s));
  static_assert(moves::check_fill_pad<D, S, Mode == TFillPadMode::Expand>());
  moves::fill_pad(d, s, typename D::DType(padding_of<D>()));
  return {};
}
// Takes the padding value beside the type, as tiles in TileType::Mat are filled.
template <class TileT, PadValue Padding = PadValue::Zero, class D, class S, class... X,
          typename Enable<kIsTile<TileT>>::type = 0>
PTO_INLINE RecordEvent TFILLPAD(D& d, const S& s, const X&...) {
  PTO_ENTER(TFILLPAD, "<tile, PadValue> d, s", out(d), in(s));
  using Padded = Tile<D::Loc, typename D::DType, D::Rows, D::Cols, D::BFractal, D::ValidRow,
                      D::ValidCol, D::SFractal, D::SFractalSize, Padding>;
  static_assert(moves::check_fill_pad<Padded, S, false>());
  moves::fill_pad(d, s, typename D::DType(padding_of<Padded>()));
  return {};
}
template <class D, class S, class... X>
PTO_INLINE RecordEvent TFILLPAD_INPLACE(D& d, const S& s, const X&...) {
  PTO_ENTER(TFILLPAD_INPLACE, "d, s", out(d), in(s));
  return TFILLPAD<TFillPadMode::InPlace>(d, s);
}
template <class D, class S, class... X>
PTO_INLINE RecordEvent TFILLPAD_EXPAND(D& d, const S& s, const X&...) {
  PTO_ENTER(TFILLPAD_EXPAND, "d, s", out(d), in(s));
  return TFILLPAD<TFillPadMode::Expand>(d, s);
}

// d[i, j] is s[row + i, col + j] where d has s's strides: the columns of a row-major tile must be
// s's. In a boxed tile (row, col) starts a box. d's valid region must end within s. Checked builds
// check all of that.
template <class D, class S, class... X>
PTO_INLINE RecordEvent TSUBVIEW(D& d, S& s, int32_t row, int32_t col, const X&...) {
  PTO_ENTER(TSUBVIEW, "d, s, r, c", out(d), in(s));
  static_assert(moves::check_alias<D, S>());
  static_assert(kSame<typename D::DType, typename S::DType>,
                "TSUBVIEW: both tiles must have the same element type; change it with TRESHAPE");
  PTO_IF_CHECKED(
      checked::require_window(row, col, d.GetValidRow(), d.GetValidCol(), S::Rows, S::Cols);
      (checked::require_same_steps<D, S>(row, col, d.GetValidRow(), d.GetValidCol()));)
  moves::bind_bytes(d, moves::bytes_of(static_cast<const S&>(s).data() + S::Offset(row, col)));
  return {};
}

// Keeps the bits: floats become the integers that they are made of.
template <class D, class S, class... X>
PTO_INLINE RecordEvent TRESHAPE(D& d, S& s, const X&...) {
  PTO_ENTER(TRESHAPE, "d, s", out(d), in(s));
  static_assert(moves::check_alias<D, S>());
  static_assert(D::Numel * sizeof(typename D::DType) == S::Numel * sizeof(typename S::DType),
                "TRESHAPE: both tiles must have the same number of bytes; use TSUBVIEW for a part");
  static_assert(D::kStored * sizeof(typename D::DType) <= S::kStored * sizeof(typename S::DType),
                "TRESHAPE: the destination's boxes must fit the source's storage; give it rows and "
                "columns that are multiples of its box");
  static_assert(D::isBoxedLayout == S::isBoxedLayout,
                "TRESHAPE: both tiles must be boxed or both plain; change the layout with TMOV");
  moves::bind_bytes(d, moves::bytes_of(static_cast<const S&>(s).data()));
  return {};
}

// A chip derives the address of the scales from the operand's; here they share its storage.
template <class D, class S, class... X>
PTO_INLINE RecordEvent TGET_SCALE_ADDR(D& d, S& s, const X&...) {
  PTO_ENTER(TGET_SCALE_ADDR, "d, s", out(d), in(s));
  moves::bind_bytes(d, moves::bytes_of(static_cast<const S&>(s).data()));
  return {};
}

PTO_NAMESPACE_END
