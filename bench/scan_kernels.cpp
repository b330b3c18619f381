// SPDX-License-Identifier: Apache-2.0
// The kernels of the scan of bench/language.py, written by hand on tiles; scan_tasks.cpp submits
// them.
//
// For each head and chunk of 128 rows, with the state [128, 128] of the head:
//
//     within_chunk:  out = (q k^T * within) v
//     carry:         out += (q * before) state;  state = whole state + (k * after)^T v
#include <pto/pto-inst.hpp>

using namespace pto;

constexpr int kSide = 128;
using Square = Tile<TileType::Vec, float, kSide, kSide>;
using Column = Tile<TileType::Vec, float, kSide, 8, BLayout::RowMajor, kSide, 1>;
using OnChip = TileNz<TileType::Mat, float, kSide, kSide>;
using View = GlobalTensor<const float, Shape<1, 1, 1, kSide, kSide>, Stride<1, 1, 1, kSide, 1>>;
using Result = GlobalTensor<float, Shape<1, 1, 1, kSide, kSide>, Stride<1, 1, 1, kSide, 1>>;
using Transposed =
    GlobalTensor<const float, Shape<1, 1, 1, kSide, kSide>, Stride<1, 1, 1, 1, kSide>, Layout::DN>;
using Scales = GlobalTensor<const float, Shape<1, 1, 1, kSide, 1>, Stride<1, 1, 1, 1, 1>>;

__global__ __aicore__ void WithinChunk(__gm__ float* out, __gm__ const float* q,
                                       __gm__ const float* k, __gm__ const float* v,
                                       __gm__ const float* within) {
  TileLeft<float, kSide, kSide> left;
  TileRight<float, kSide, kSide> right;
  TileAcc<float, kSide, kSide> product;
  OnChip chip;
  Square scores, weights;
  TLOAD(left, View(q));
  TLOAD(chip, Transposed(k));
  TMOV(right, chip);
  TMATMUL(product, left, right);
  TMOV(scores, product);
  TLOAD(weights, View(within));
  TMUL(scores, scores, weights);
  TMOV(chip, scores);
  TMOV(left, chip);
  TLOAD(right, View(v));
  TMATMUL(product, left, right);
  TSTORE(Result(out), product);
}
PTO_KERNEL(within_chunk, WithinChunk)

__global__ __aicore__ void Carry(__gm__ float* out, __gm__ float* state, __gm__ const float* q,
                                 __gm__ const float* k, __gm__ const float* v,
                                 __gm__ const float* before, __gm__ const float* after,
                                 __gm__ const float* whole) {
  TileLeft<float, kSide, kSide> left;
  TileRight<float, kSide, kSide> right;
  TileAcc<float, kSide, kSide> product;
  OnChip chip;
  Square rows, found;
  Column scale;
  TLOAD(rows, View(q));
  TLOAD(scale, Scales(before));
  TROWEXPANDMUL(rows, rows, scale);
  TMOV(chip, rows);
  TMOV(left, chip);
  TLOAD(right, View(state));
  TMATMUL(product, left, right);
  TMOV(found, product);
  TLOAD(rows, View(out));
  TADD(found, found, rows);
  TSTORE(Result(out), found);

  Square values;
  TLOAD(values, View(v));
  TLOAD(scale, Scales(after));
  TROWEXPANDMUL(values, values, scale);
  TMOV(chip, values);
  TMOV(right, chip);
  TLOAD(chip, Transposed(k));
  TMOV(left, chip);
  TMATMUL(product, left, right);
  TMOV(found, product);
  TLOAD(rows, View(state));
  TMULS(rows, rows, whole[0]);
  TADD(found, found, rows);
  TSTORE(Result(state), found);
}
PTO_KERNEL(carry, Carry)
