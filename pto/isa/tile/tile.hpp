// SPDX-License-Identifier: Apache-2.0
// Tile: a small block of elements that the instructions work on.
//
//     Tile<TileType::Vec, float, 16, 256> t;                                   // 16 x 256
//     Tile<TileType::Vec, float, 16, 256, BLayout::RowMajor, 16, DYNAMIC> u(n);  // n valid columns
//     Tile<TileType::Mat, half, 64, 64, BLayout::ColMajor, 64, 64, SLayout::RowMajor> nz;  // boxed
//
// Layouts, as BLayout (the order of boxes) and SLayout (of elements in a box): ND (Row, None),
// DN (Col, None), Nz (Col, Row), Zn (Row, Col), Zz (Row, Row), Nn (Col, Col).
//
// Invariant: an automatic tile owns its storage and copying copies its values; TASSIGN binds a tile
// to the memory of its location, and then copying copies the binding. Only the valid region, its
// first GetValidRow() x GetValidCol() elements, takes part in an instruction. It lies within the
// tile: a larger one, or a negative extent, fails the block where it is set.
// Thread safety: a tile belongs to one thread.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/of_thread.hpp"
#include "pto/isa/kernel/chip.hpp"
#include "pto/isa/kernel/enter.hpp"
#include "pto/isa/tile/rules.hpp"

PTO_NAMESPACE_BEGIN

// One extent of a valid region: a constant, or a number that may change.
template <int Static, int Full, int Axis>
struct ValidExtent {
  static_assert(Static >= 0 && Static <= Full,
                "Tile: the valid region must fit the tile; use at most its rows and columns");
  static constexpr PTO_INLINE int get() { return Static; }
  PTO_INLINE void set([[maybe_unused]] int n) {
    PTO_IF_CHECKED(if (n != Static) pto_check_failed_fixed(n, Static, Axis);)
  }
};
template <int Full, int Axis>
struct ValidExtent<DYNAMIC, Full, Axis> {
  int value = Full;
  PTO_INLINE int get() const { return value; }
  // Checked in every build: the memory behind the tile belongs to others.
  PTO_INLINE void set(int n) {
    if (__builtin_expect(unsigned(n) > unsigned(Full), 0)) pto_check_failed_valid(n, Full, Axis);
    value = n;
  }
};

// The box of a boxed layout: 512 bytes of rows of 32 (16 x 32 / sizeof(T), or 16 x 64 where T is
// two numbers), 1024 bytes are 16 x 16 (accumulators), 32 bytes 16 x 2 (scales); transposed where
// its elements run down the columns.
template <class T, SLayout Box, int FractalBytes>
struct Fractal {
  static_assert(
      Box == SLayout::NoneBox || FractalBytes == 512 || FractalBytes == 1024 || FractalBytes == 32,
      "Tile: SFractalSize must be the bytes of a box; pass 512, 1024 (accumulators) or 32 "
      "(scales)");
  static constexpr int kAcross = FractalBytes == 1024 ? 16
                                 : FractalBytes == 32 ? 2
                                                      : (kIsTwin<T> ? 64 : 32) / int(sizeof(T));
  static constexpr int kRows = Box == SLayout::NoneBox    ? 1
                               : Box == SLayout::RowMajor ? 16
                                                          : kAcross;
  static constexpr int kCols = Box == SLayout::NoneBox    ? 1
                               : Box == SLayout::RowMajor ? kAcross
                                                          : 16;
};

// Up to 16 KB a tile is a member array, which the compiler can keep in registers; larger ones
// live in recycled memory of the host. The array is padded to whole vectors.
template <class T, int Count, bool Inline>
struct OwnStorage {
  alignas(64) T values[(Count + kVectorBytes - 1) / kVectorBytes * kVectorBytes];
  PTO_INLINE T* get() { return values; }
  PTO_INLINE const T* get() const { return values; }
};
template <class T, int Count>
struct OwnStorage<T, Count, false> {
  T* values;
  OwnStorage() : values(static_cast<T*>(needed_memory(Count * sizeof(T)))) {}
  OwnStorage(const OwnStorage& other) : OwnStorage() { *this = other; }
  ~OwnStorage() { pto_free(values); }
  OwnStorage& operator=(const OwnStorage& other) {
    __builtin_memmove(static_cast<void*>(values), other.values, Count * sizeof(T));
    return *this;
  }
  PTO_INLINE T* get() { return values; }
  PTO_INLINE const T* get() const { return values; }
};

// Owns storage until it is bound. The compiler must assume that a store through either pointer
// changes `bound`, which is why such a tile leaves its registers at the end of a loop.
template <class T, class Own>
struct BindableStorage {
  T* bound = nullptr;
  Own own;
  PTO_INLINE T* get() { return bound ? bound : own.get(); }
  PTO_INLINE const T* get() const { return bound ? bound : own.get(); }
};

// The same, with a data() that may be assigned to; a copy of own storage has its own.
template <class T, class Own>
struct PointedStorage {
  T* bound = nullptr;
  Own own;

  PointedStorage() = default;
  PTO_INLINE PointedStorage(const PointedStorage& other) { *this = other; }
  PTO_INLINE PointedStorage& operator=(const PointedStorage& other) {
    const bool is_own = !other.bound || other.bound == other.own.get();
    if (is_own) own = other.own;
    bound = is_own ? nullptr : other.bound;
    return *this;
  }
  PTO_INLINE T*& get() {
    if (!bound) bound = own.get();
    return bound;
  }
  PTO_INLINE const T* get() const { return bound ? bound : own.get(); }
};

// A hint to chips about the columns of a left operand, kept for the simulator's sources, which ask
// for it again.
template <bool IsKept>
struct ColumnHint {
  PTO_INLINE void SetKAligned(bool value) { is_aligned_ = value; }
  PTO_INLINE bool GetKAligned() const { return is_aligned_; }

 private:
  bool is_aligned_ = false;
};
template <>
struct ColumnHint<false> {
  PTO_INLINE void SetKAligned(bool) {}
  static constexpr PTO_INLINE bool GetKAligned() { return false; }
};

template <TileType Location, class T, int RowCount, int ColCount, BLayout Order = BLayout::RowMajor,
          int RowValid = RowCount, int ColValid = ColCount, SLayout Box = SLayout::NoneBox,
          int FractalBytes = 512, auto Padding = PadValue::Null,
          CompactMode Compaction = CompactMode::Null>
struct Tile : ColumnHint<Rules::kKeepsTileState && Location != TileType::Reg> {
  static_assert(Location != TileType::Reg || RowCount * ColCount / kLanes<T> <= 16,
                "Tile: a register tile holds at most 16 vectors; use kMicro<T> elements");
  static_assert(RowCount > 0 && ColCount > 0,
                "Tile: Rows and Cols must be positive; make the valid region dynamic instead");
  static_assert(Location == TileType::Reg || Box != SLayout::NoneBox ||
                    (Order == BLayout::RowMajor ? ColCount : RowCount) * sizeof(T) % 32 == 0 ||
                    (Order == BLayout::RowMajor ? ColCount : RowCount) % kLanes<T> == 0,
                "Tile: the contiguous dimension must be a multiple of 32 bytes or of kLanes<T>; "
                "round it up and limit the valid region");
  using Boxes = Fractal<T, Box, FractalBytes>;
  static constexpr int kNumbers = kIsTwin<T> ? 2 : 1;
  static_assert(ColCount * kNumbers % Boxes::kCols == 0 || FractalBytes == 32,
                "Tile: Cols of a boxed tile must be a multiple of the box's columns; round it up "
                "and limit the valid region");
  static_assert(RowCount * kNumbers % Boxes::kRows == 0 || RowCount == 1 || FractalBytes == 32 ||
                    Location == TileType::Vec,
                "Tile: Rows of a boxed tile must be 1 or a multiple of the box's rows; round it up "
                "and limit the valid region");

  using DType = T;
  using TileDType = T*;
  static constexpr TileType Loc = Location;
  static constexpr int Rows = RowCount, Cols = ColCount, Numel = RowCount * ColCount;
  static constexpr int ValidRow = RowValid, ValidCol = ColValid;
  static constexpr bool isRowMajor = Order == BLayout::RowMajor;
  static constexpr int RowStride = isRowMajor ? ColCount : 1;
  static constexpr int ColStride = isRowMajor ? 1 : RowCount;
  static constexpr BLayout BFractal = Order;
  static constexpr SLayout SFractal = Box;
  static constexpr int SFractalSize = FractalBytes;
  static constexpr bool isBoxedLayout = Box != SLayout::NoneBox;
  static constexpr bool isInnerRowMajor = Box == SLayout::RowMajor;
  static constexpr bool isInnerColMajor = Box == SLayout::ColMajor;
  static constexpr int InnerRows = Boxes::kRows, InnerCols = Boxes::kCols;
  static constexpr int InnerNumel = InnerRows * InnerCols;
  // Boxes along each axis, and the elements of storage: whole boxes.
  static constexpr int kBoxRows = (RowCount + InnerRows - 1) / InnerRows;
  static constexpr int kBoxCols = (ColCount + InnerCols - 1) / InnerCols;
  static constexpr int kStored = kBoxRows * kBoxCols * InnerNumel;
  static constexpr auto PadVal = Padding;
  // The public simulator's data() is a pointer; its sources assign to those of boxed tiles.
  static constexpr bool kIsPointed =
      Rules::kKeepsTileState && isBoxedLayout && Location != TileType::Reg;
  static constexpr CompactMode Compact = Compaction;

  PTO_INLINE Tile() {
    if constexpr (kMustClear) clear_padding();
  }
  // Sets the dynamic extent, where exactly one is dynamic.
  explicit PTO_INLINE Tile(int valid) {
    static_assert((RowValid == DYNAMIC) != (ColValid == DYNAMIC),
                  "Tile(n): exactly one of RowValid and ColValid must be DYNAMIC; give Tile(rows, "
                  "cols) two numbers where both are");
    if constexpr (RowValid == DYNAMIC)
      rows_.set(valid);
    else
      cols_.set(valid);
    if constexpr (kMustClear) clear_padding();
  }
  PTO_INLINE Tile(int rows, int cols) {
    static_assert(RowValid == DYNAMIC && ColValid == DYNAMIC,
                  "Tile(rows, cols): both RowValid and ColValid must be DYNAMIC; leave out the "
                  "extent that is not");
    SetValidShape(rows, cols);
    if constexpr (kMustClear) clear_padding();
  }

  PTO_INLINE int GetValidRow() const { return rows_.get(); }
  PTO_INLINE int GetValidCol() const { return cols_.get(); }
  PTO_INLINE void SetValidRow(int rows) { rows_.set(rows); }
  PTO_INLINE void SetValidCol(int cols) { cols_.set(cols); }
  PTO_INLINE void SetValidShape(int rows, int cols) {
    rows_.set(rows);
    cols_.set(cols);
  }

  // A register tile's member by name saves a call to inline for every operand.
  PTO_INLINE typename Choose<kIsPointed, T*&, T*>::type data() {
    PTO_IF_CHECKED(checked::note_access(*this, checked_state, kStored * sizeof(T));)
    PTO_IF_CHIP(static_assert(chip::Used<int(Location), int64_t(kStored) * sizeof(T)>::kFits);)
    if constexpr (Location == TileType::Reg)
      return storage_.values;
    else
      return storage_.get();
  }
  PTO_INLINE const T* data() const {
    PTO_IF_CHIP(static_assert(chip::Used<int(Location), int64_t(kStored) * sizeof(T)>::kFits);)
    if constexpr (Location == TileType::Reg)
      return storage_.values;
    else
      return storage_.get();
  }

  // Access by position in storage, and by row and column. Only checked builds check them.
  PTO_INLINE T GetValue(int offset) const {
    PTO_IF_CHECKED(checked::require_offset(offset, kStored);)
    return lanes::load_element<T>(data() + offset);
  }
  PTO_INLINE void SetValue(int offset, T value) {
    PTO_IF_CHECKED(checked::require_offset(offset, kStored);)
    lanes::store_element<T>(data() + offset, value);
  }
  PTO_INLINE T GetElement(int row, int col) const {
    PTO_IF_CHECKED(checked::require_element(row, col, Rows, Cols);)
    return lanes::number_at(data(), Offset(row, col));
  }
  PTO_INLINE void SetElement(int row, int col, T value) {
    PTO_IF_CHECKED(checked::require_element(row, col, Rows, Cols);)
    lanes::set_number<T>(data(), Offset(row, col), value);
  }
  PTO_INLINE void AddToElement(int row, int col, T value) {
    SetElement(row, col, T(GetElement(row, col) + value));
  }
  static constexpr PTO_INLINE int Offset(int row, int col) {
    if constexpr (!isBoxedLayout) {
      return row * RowStride + col * ColStride;
    } else {
      const unsigned r = unsigned(row), c = unsigned(col);
      const unsigned box = isRowMajor ? r / InnerRows * kBoxCols + c / InnerCols
                                      : c / InnerCols * kBoxRows + r / InnerRows;
      const unsigned inner = isInnerRowMajor ? r % InnerRows * InnerCols + c % InnerCols
                                             : c % InnerCols * InnerRows + r % InnerRows;
      return int(box * InnerNumel + inner);
    }
  }
  // Sets how chips shorten f32 before products; here nothing does.
  PTO_INLINE void SetMadTF32Mode(RoundMode = RoundMode::CAST_ROUND) {}
  PTO_INLINE void ResetMadMode() {}

  static constexpr PTO_INLINE int GetSizeInUnits() { return Numel; }
  static constexpr PTO_INLINE int GetSizeInBytes() { return Numel * int(sizeof(T)); }

  // TASSIGN calls it: null makes the tile automatic again.
  PTO_INLINE void bind(T* memory) {
    static_assert(Loc != TileType::Reg,
                  "TASSIGN: a register tile has no address; declare it as TileType::Vec");
    storage_.bound = memory;
    PTO_IF_CHIP(room_.set(memory == nullptr);)
  }
  PTO_INLINE const T* place() const { return storage_.bound; }  // null: automatic
  PTO_IF_CHECKED(mutable pto_tile_state checked_state = {};)

 private:
  static constexpr bool kMustClear = !isBoxedLayout && Numel % kLanes<T> == 0 &&
                                     Numel / kLanes<T> <= 16 &&
                                     (RowValid != RowCount || ColValid != ColCount);

  // Instructions on a small tile compute whole registers and keep the old padding, so that it
  // must hold something; the stores vanish where nothing reads it.
  PTO_INLINE void clear_padding() {
    using Raws = typename VecOf<Raw<T>, kLanes<T>>::loose;
    T* values;
    if constexpr (Location == TileType::Reg)
      values = storage_.values;
    else
      values = storage_.get();
    PTO_UNROLL
    for (int i = 0; i < Numel / kLanes<T>; ++i) reinterpret_cast<Raws*>(values)[i] = Raws{};
    PTO_IF_CHECKED(checked_state = {};)
  }

  using Own = OwnStorage<T, kStored, kStored * sizeof(T) <= 16384>;

  ValidExtent<RowValid, RowCount, 0> rows_;
  ValidExtent<ColValid, ColCount, 1> cols_;
  using Bindable =
      typename Choose<kIsPointed, PointedStorage<T, Own>, BindableStorage<T, Own>>::type;
  typename Choose<Location == TileType::Reg, Own, Bindable>::type storage_;
  PTO_IF_CHIP(chip::Room<int(Location), int64_t(kStored) * sizeof(T)> room_;)
};

// A row of W elements in registers, of which the first Valid count.
template <class T, int W, int Valid = W>
using MicroTile = Tile<TileType::Reg, T, 1, W, BLayout::RowMajor, 1, Valid>;

template <class A>
constexpr bool kIsTile = false;
template <TileType L, class T, int R, int C, BLayout B, int VR, int VC, SLayout S, int F, auto P,
          CompactMode M>
constexpr bool kIsTile<Tile<L, T, R, C, B, VR, VC, S, F, P, M>> = true;
template <class A>
constexpr bool kIsTile<const A> = kIsTile<A>;

// True for the operands that every instruction accepts after its own: temporary tiles and events.
template <class A>
constexpr bool kIsTrailing = kIsTile<A> || sizeof(A) == 1;

// True for tiles that are row-major and not boxed.
template <class... D>
constexpr bool kIsRows = ((D::isRowMajor && !D::isBoxedLayout) && ...);

// Sees storage as lines of contiguous elements: rows of a row-major tile, columns of a column-major
// one. Boxed tiles have no such lines.
template <class D>
constexpr int kLines = D::isRowMajor ? D::Rows : D::Cols;
template <class D>
constexpr int kLineLength = D::isRowMajor ? D::Cols : D::Rows;
template <class D>
PTO_INLINE int valid_lines(const D& d) {
  return D::isRowMajor ? d.GetValidRow() : d.GetValidCol();
}
template <class D>
PTO_INLINE int valid_length(const D& d) {
  return D::isRowMajor ? d.GetValidCol() : d.GetValidRow();
}

// Counts the elements of one vector step: fewer than the target's for a shorter register tile.
template <class D>
constexpr int kTileLanes =
    D::Loc == TileType::Reg&& D::Numel < kLanes<typename D::DType> ? D::Numel
                                                                   : kLanes<typename D::DType>;

// True where the whole tile is valid, known at compile time.
template <class D>
constexpr bool kIsFull = D::ValidRow == D::Rows&& D::ValidCol == D::Cols;

// A single line of few whole vectors: short enough to live in registers when it is unrolled.
template <class D>
constexpr bool kIsMicro =
    !D::isBoxedLayout && kLines<D> == 1 && kLineLength<D> % kTileLanes<D> == 0 &&
    kLineLength<D> / kTileLanes<D> <= 16;

// Reads the bits that PadValueCustom kept: those of a T, or of a float where T is narrower.
template <class T>
PTO_INLINE Compute<T> custom_padding(uint32_t bits) {
  if constexpr (kSame<T, mask32>) {
    return T(bits != 0).raw;
  } else if constexpr (kIsFloat<T> || __is_class(T)) {
    if (sizeof(T) < 4 && bits >> (8 * sizeof(T) % 32) == 0) {
      T value;
      __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T) < 4 ? sizeof(T) : 4);
      return Compute<T>(value);
    }
    return Compute<T>(bit_cast<float>(bits));
  } else {
    return Compute<T>(T(bits));
  }
}

// Returns the element that fills padding: 0 unless the tile names another.
template <class D>
PTO_INLINE Compute<typename D::DType> padding_of() {
  using C = Compute<typename D::DType>;
  if constexpr (!kSame<decltype(D::PadVal), const PadValue>)
    return C(D::PadVal);
  else if constexpr (isCustomPadValue(D::PadVal))
    return custom_padding<typename D::DType>(getCustomPadBits(D::PadVal));
  else if constexpr (D::PadVal == PadValue::Max)
    return highest<C>();
  else if constexpr (D::PadVal == PadValue::Min)
    return lowest<C>();
  else
    return C(0);
}

PTO_NAMESPACE_END
