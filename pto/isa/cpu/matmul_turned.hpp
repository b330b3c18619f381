// SPDX-License-Identifier: Apache-2.0
// Matmul turned: a few rows of floats by columns of b, such as the rows of a weight, which are
// turned in registers.
//
//     Turned<3>::run(Turned<3>::All(), a, a_row, b, b_col, depth, nullptr, c, 0, c_row);
//
// Invariant: reads depth units of kCols columns and writes Rows x kCols outputs, each summed up in
// the order of the units.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_dot.hpp"
#include "pto/isa/cpu/matmul_kernel.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kTurnedAhead = 64;  // floats of a column of b to prefetch

// Makes `Rows` outputs of two vectors of columns from columns of b that lie `b_col` floats apart.
template <int Rows>
struct Turned {
  static constexpr int kWide = 2;
  static constexpr int kCols = kWide * kLane;
  static constexpr int kBlock = moves::kLaneCount<4>;  // units that are turned at once
  using Sum = FloatDot::Sum;
  using All = typename IndicesTo<Rows * kWide>::type;
  using Down = typename IndicesTo<Rows>::type;

  // Adds the products of one unit to the sums of column group G.
  template <int G, int... R>
  static PTO_INLINE void step(Indices<R...>, Sum* sum, const int32_t* a, int64_t a_row, Units b) {
    ((sum[R * kWide + G] =
          FloatDot::add(sum[R * kWide + G], lanes::splat<Units>(uint32_t(a[R * a_row])), b)),
     ...);
  }
  // Units that share cache lines follow each other: columns may lie 4 KB apart, where few lines are
  // all that the first cache keeps. Prefetches those `ahead` floats on.
  template <int G>
  static PTO_INLINE void line(Sum* sum, const int32_t* a, int64_t a_row, const float* b,
                              int64_t b_col, int64_t ahead) {
    b += G * kLane * b_col;
    for (int i = 0; i < kLane; ++i) __builtin_prefetch(b + i * b_col + ahead, 0, 2);
    for (int part = 0; part < kLineUnits; part += kBlock) {
      Units units[kBlock];
      moves::load_transposed<4, kLane>(units, reinterpret_cast<const char*>(b + part), b_col * 4);
      PTO_UNROLL
      for (int u = 0; u < kBlock; ++u) step<G>(Down(), sum, a + part + u, a_row, units[u]);
    }
  }
  template <int G>
  static PTO_INLINE void one(Sum* sum, const int32_t* a, int64_t a_row, const float* b,
                             int64_t b_col) {
    Units unit;
    for (int i = 0; i < kLane; ++i) unit[i] = bit_cast<uint32_t>(b[(G * kLane + i) * b_col]);
    step<G>(Down(), sum, a, a_row, unit);
  }

  template <int... I>
  static PTO_INLINE void run(Indices<I...>, const int32_t* a, int64_t a_row, const float* b,
                             int64_t b_col, int depth, const int32_t* from, int32_t* to,
                             int64_t from_row, int64_t to_row) {
    Sum sum[Rows * kWide];
    if (from)
      ((sum[I] = bit_cast<Sum>(
            *reinterpret_cast<const LooseUnits*>(from + I / kWide * from_row + I % kWide * kLane))),
       ...);
    else
      ((sum[I] = Sum{}), ...);
    int k = 0;
    for (; k + kLineUnits <= depth; k += kLineUnits) {
      // Behind the end of these columns lie the next ones.
      const bool is_within = k + kTurnedAhead < depth;
      const int64_t ahead = kTurnedAhead + (is_within ? 0 : kCols * b_col - depth);
      line<0>(sum, a + k, a_row, b + k, b_col, ahead);
      line<1>(sum, a + k, a_row, b + k, b_col, ahead);
    }
    for (; k < depth; ++k) {
      one<0>(sum, a + k, a_row, b + k, b_col);
      one<1>(sum, a + k, a_row, b + k, b_col);
    }
    ((*reinterpret_cast<LooseUnits*>(to + I / kWide * to_row + I % kWide * kLane) =
          bit_cast<Units>(sum[I])),
     ...);
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
