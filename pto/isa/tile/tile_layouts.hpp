// SPDX-License-Identifier: Apache-2.0
// Tile layouts: the tiles of a matrix product by name, and the position of an element of a tile.
//
//     TileLeft<half, 64, 64> a;
//     TileRight<half, 64, 64> b;
//     TileAcc<float, 64, 64> c;
//     c.data()[GetTileElementOffset<decltype(c)>(row, col)] = 1;
//
// Left operands and accumulators are Nz, right operands Zn, as on the chips whose library names
// them so; scales are Zz and Nn in boxes of 32 bytes. The compact names are the same tiles: they
// save a chip the transfer of padding, which nothing reads here.
//
// Thread safety: types and pure functions.
#pragma once
#include "pto/isa/tile/global_tensor.hpp"
#include "pto/isa/tile/tile.hpp"

PTO_NAMESPACE_BEGIN

template <TileType Location, class T, int Rows, int Cols, int ValidRows = Rows,
          int ValidCols = Cols, int FractalBytes = 512, CompactMode Mode = CompactMode::Null>
using TileNz = Tile<Location, T, Rows, Cols, BLayout::ColMajor, ValidRows, ValidCols,
                    SLayout::RowMajor, FractalBytes, PadValue::Null, Mode>;
template <TileType Location, class T, int Rows, int Cols, int ValidRows = Rows,
          int ValidCols = Cols, int FractalBytes = 512, CompactMode Mode = CompactMode::Null>
using TileZn = Tile<Location, T, Rows, Cols, BLayout::RowMajor, ValidRows, ValidCols,
                    SLayout::ColMajor, FractalBytes, PadValue::Null, Mode>;

// PTO_TILE(TileLeft, ...) names TileLeft<T, Rows, Cols, ValidRows, ValidCols> and its compact form.
#define PTO_TILE_NAME(Name, Mode, Location, Order, Box, FractalBytes)                        \
  template <class T, int Rows, int Cols, int ValidRows = Rows, int ValidCols = Cols>         \
  using Name = Tile<TileType::Location, T, Rows, Cols, BLayout::Order, ValidRows, ValidCols, \
                    SLayout::Box, FractalBytes, PadValue::Null, CompactMode::Mode>;
#define PTO_TILE(Name, ...)              \
  PTO_TILE_NAME(Name, Null, __VA_ARGS__) \
  PTO_TILE_NAME(Name##Compact, Normal, __VA_ARGS__)
PTO_TILE(TileLeft, Left, ColMajor, RowMajor, 512)
PTO_TILE(TileRight, Right, RowMajor, ColMajor, 512)
PTO_TILE(TileAcc, Acc, ColMajor, RowMajor, 1024)
PTO_TILE(TileLeftScale, ScaleLeft, RowMajor, RowMajor, 32)
PTO_TILE(TileRightScale, ScaleRight, ColMajor, ColMajor, 32)
#undef PTO_TILE
#undef PTO_TILE_NAME

// Returns the position of an element in data().
template <class D>
constexpr PTO_INLINE int GetTileElementOffset(int row, int col) {
  return D::Offset(row, col);
}
template <class D>
constexpr PTO_INLINE int GetTileOffset(int row, int col) {
  return D::Offset(row, col);
}

template <class A>
constexpr bool kIsGlobal = false;
template <class T, class S, class R, Layout O>
constexpr bool kIsGlobal<GlobalTensor<T, S, R, O>> = true;
template <class A>
constexpr bool kIsGlobal<const A> = kIsGlobal<A>;

template <class A>
constexpr bool is_tile_data_v = kIsTile<A>;
template <class A>
constexpr bool is_global_data_v = kIsGlobal<A>;
template <class A>
constexpr bool is_boxed_data_v = A::isBoxedLayout;

PTO_NAMESPACE_END
