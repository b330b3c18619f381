// SPDX-License-Identifier: Apache-2.0
// The kernels of the operators in this folder, on tiles of one line.
//
//     EXEC_KERNEL_CMD(AddKernel<float>, blocks, out, x, y, rows, columns, columns, 1, 0, 1);
//
// Each block takes its share of the rows, or of the elements; the last tile is as long as what is
// left. Arguments that broadcast have steps of 0.
// Invariant: a block touches only its own share.
// Thread safety: blocks may run side by side.
#pragma once
#include <pto/pto-inst.hpp>

namespace my_ops {

// Apart from the instruction set's names, that PyTorch has too.
namespace isa = pto::isa;

constexpr int kLine = 1024;
template <class T>
using Line = isa::Tile<isa::TileType::Vec, T, 1, kLine, isa::BLayout::RowMajor, 1, isa::DYNAMIC>;

struct Share {
  int64_t first, last;
};
inline Share share_of(int64_t all) {
  const int64_t block = isa::get_block_idx(), blocks = isa::get_block_num();
  return {all * block / blocks, all * (block + 1) / blocks};
}

inline int length_of(int64_t left) { return static_cast<int>(left < kLine ? left : kLine); }

// out[r, c] = x[r * x_row + c * x_column] + y[...], then the maximum with 0 where `relu` says so.
template <class T>
__global__ void AddKernel(__gm__ T* out, __gm__ const T* x, __gm__ const T* y, int64_t rows,
                          int64_t columns, int64_t x_row, int64_t x_column, int64_t y_row,
                          int64_t y_column, bool relu) {
  // One row is as many tiles as it needs; blocks share all tiles, so that one row has many too.
  const int64_t tiles = (columns + kLine - 1) / kLine;
  const Share mine = share_of(rows * tiles);
  for (int64_t tile = mine.first; tile < mine.last; ++tile) {
    const int64_t r = tile / tiles, c = tile % tiles * kLine;
    const int n = length_of(columns - c);
    Line<T> a(n), b(n);
    const T* from_x = x + r * x_row + c * x_column;
    const T* from_y = y + r * y_row + c * y_column;
    if (x_column != 0)
      isa::TLOAD(a, isa::GlobalTensor(from_x));
    else
      isa::TEXPANDS(a, *from_x);
    if (y_column != 0)
      isa::TLOAD(b, isa::GlobalTensor(from_y));
    else
      isa::TEXPANDS(b, *from_y);
    isa::TADD(a, a, b);
    if (relu) isa::TMAXS(a, a, T(0));
    isa::TSTORE(isa::GlobalTensor(out + r * columns + c), a);
  }
}

template <class T>
__global__ void ScaleKernel(__gm__ T* out, __gm__ const T* x, T factor, int64_t length) {
  const Share mine = share_of(length);
  for (int64_t i = mine.first; i < mine.last; i += kLine) {
    Line<T> tile(length_of(mine.last - i));
    isa::TLOAD(tile, isa::GlobalTensor(x + i));
    isa::TMULS(tile, tile, factor);
    isa::TSTORE(isa::GlobalTensor(out + i), tile);
  }
}

// In place where `out` is `x`.
template <class T>
__global__ void ReluKernel(__gm__ T* out, __gm__ const T* x, int64_t length) {
  const Share mine = share_of(length);
  for (int64_t i = mine.first; i < mine.last; i += kLine) {
    Line<T> tile(length_of(mine.last - i));
    isa::TLOAD(tile, isa::GlobalTensor(x + i));
    isa::TMAXS(tile, tile, T(0));
    isa::TSTORE(isa::GlobalTensor(out + i), tile);
  }
}

// out = x * weight + bias, both along the last axis and either may be absent.
template <class T>
__global__ void AffineKernel(__gm__ T* out, __gm__ const T* x, __gm__ const T* weight,
                             __gm__ const T* bias, int64_t rows, int64_t columns) {
  const Share mine = share_of(rows);
  for (int64_t r = mine.first; r < mine.last; ++r) {
    for (int64_t c = 0; c < columns; c += kLine) {
      const int n = length_of(columns - c);
      Line<T> tile(n), other(n);
      isa::TLOAD(tile, isa::GlobalTensor(x + r * columns + c));
      if (weight != nullptr) {
        isa::TLOAD(other, isa::GlobalTensor(weight + c));
        isa::TMUL(tile, tile, other);
      }
      if (bias != nullptr) {
        isa::TLOAD(other, isa::GlobalTensor(bias + c));
        isa::TADD(tile, tile, other);
      }
      isa::TSTORE(isa::GlobalTensor(out + r * columns + c), tile);
    }
  }
}

// A part of x [outer, length]: the columns from `first` on, `columns` of them.
template <class T>
__global__ void SplitKernel(__gm__ T* out, __gm__ const T* x, int64_t outer, int64_t length,
                            int64_t first, int64_t columns) {
  const Share mine = share_of(outer);
  for (int64_t r = mine.first; r < mine.last; ++r) {
    for (int64_t c = 0; c < columns; c += kLine) {
      Line<T> tile(length_of(columns - c));
      isa::TLOAD(tile, isa::GlobalTensor(x + r * length + first + c));
      isa::TSTORE(isa::GlobalTensor(out + r * columns + c), tile);
    }
  }
}

}  // namespace my_ops
