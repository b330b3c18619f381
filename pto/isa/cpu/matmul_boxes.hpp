// SPDX-License-Identifier: Apache-2.0
// Matmul boxes: tiles of a few rows by columns of b, whose elements lie together, as those of a
// key do. A box of 16 bytes of a sum has one column by four rows of a: columns are read as they
// lie, and a shuffle within boxes makes the factor of four rows.
//
//     pack_boxes(panel, a, a_row, rows, units);   // [units][groups of rows][lanes]
//     BoxTile<FloatDot, float, 2>::run(b, b_col, panel, 8, units, c, c_row, requests);
//
// Box i of vector j of sums is column 4 i + j: turned, four vectors are four rows.
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack_bytes.hpp"
#include "pto/isa/cpu/matmul_requests.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kBox = 4;  // units of 16 bytes: rows of a box, and vectors of a tile

// Repeats a box, by one instruction where the compiler finds many.
PTO_INLINE Units boxes_of(Vec<uint32_t, kBox> box) {
#if defined(PTO_TARGET_AVX512)
  Units all;
  asm("vshufi32x4 $0, %g1, %g1, %0" : "=v"(all) : "v"(box));
  return all;
#elif defined(PTO_TARGET_AVX2)
  Units all;
  asm("vinserti128 $1, %1, %t1, %0" : "=x"(all) : "x"(box));
  return all;
#else
  return box;
#endif
}

// Arranges rows of a, `a_row` units apart: each box four rows of a unit. Rows up to a multiple of
// four are zeros; units up to a multiple of four are written.
inline void pack_boxes(int32_t* panel, const int32_t* a, int64_t a_row, int rows, int units) {
  using Box = Vec<uint32_t, kBox>;
  const int groups = quotient_up(rows, kBox);
  for (int group = 0; group < groups; ++group, a += kBox * a_row, rows -= kBox) {
    for (int k = 0; k < units; k += kBox) {
      Box box[kBox];
      if (rows >= kBox && units - k >= kBox) {
        PTO_UNROLL
        for (int r = 0; r < kBox; ++r) __builtin_memcpy(&box[r], a + r * a_row + k, sizeof(Box));
      } else {
        int32_t part[kBox][kBox] = {};
        for (int r = 0; r < smaller(rows, kBox); ++r)
          for (int u = 0; u < smaller(units - k, kBox); ++u) part[r][u] = a[r * a_row + k + u];
        __builtin_memcpy(box, part, sizeof part);
      }
      turn(box);
      int32_t* to = panel + (k * groups + group) * kLane;
      PTO_UNROLL
      for (int u = 0; u < kBox; ++u, to += groups * kLane)
        *reinterpret_cast<LooseUnits*>(to) = boxes_of(box[u]);
    }
  }
}

// T: the type of b's elements. Pairs of bf16 are units as floats are; for FloatDot they are widened
// while they are shuffled.
template <class Dot, class T, int Groups>
struct BoxTile {
  using Sum = typename Dot::Sum;
  using All = typename IndicesTo<Groups * kBox>::type;
  using Vectors = typename IndicesTo<kBox>::type;
  using EachGroup = typename IndicesTo<Groups>::type;
  static constexpr bool kWidens = Dot::kPerUnit == 1 && sizeof(T) == 2;
  static constexpr int kUnits = kWidens ? 2 * kBox : kBox;  // of a box of b
  static constexpr int kUnitBytes = kWidens ? 2 : 4;

  // Makes the factor of each column's unit U.
  template <int U, int... I>
  static PTO_INLINE Units factor(Units v, Indices<I...>) {
    constexpr int kWord = kWidens ? U / 2 : U;
    const Units word = __builtin_shufflevector(v, v, (I / kBox * kBox + kWord)...);
    if constexpr (!kWidens)
      return word;
    else
      return U % 2 ? word & 0xffff0000u : word << 16;
  }
  template <int J, int... G>
  static PTO_INLINE void add(Indices<G...>, Sum* sum, Units x, const Units* left) {
    ((sum[G * kBox + J] = Dot::add(sum[G * kBox + J], left[G], x)), ...);
  }
  template <int U, int... J, int... G>
  static PTO_INLINE void step(Indices<J...>, Indices<G...> groups, Sum* sum, const Units* right,
                              const int32_t* panel) {
    using Lanes = typename IndicesTo<kLane>::type;
    const Units left[] = {
        *reinterpret_cast<const LooseUnits*>(panel + (U * Groups + G) * kLane)...};
    (add<J>(groups, sum, factor<U>(right[J], Lanes()), left), ...);
  }
  // Adds the products of `units` units of a box.
  template <int... U>
  static PTO_INLINE void steps(Indices<U...>, Sum* sum, const char* b, int64_t b_col,
                               const int32_t* panel, int units) {
    const char* rows[kLane / kBox];
    PTO_UNROLL
    for (int i = 0; i < kLane / kBox; ++i)
      rows[i] = lanes::without_history(i > 0 ? rows[i - 1] + kBox * b_col : b);
    Units right[kBox];
    PTO_UNROLL
    for (int j = 0; j < kBox; ++j) right[j] = moves::load_lanes<4, kLane>(rows, j * b_col);
    ((U < units ? step<U>(Vectors(), EachGroup(), sum, right, panel) : void()), ...);
  }

  // Multiplies kLane columns of b, `b_col` bytes apart; `to`: rows of that many sums, `to_row`
  // bytes apart. Sixteen units are a turn.
  static void run(const char* b, int64_t b_col, const int32_t* panel, int rows, int units, char* to,
                  int64_t to_row, Requests& requests) {
    using Each = typename IndicesTo<kUnits>::type;
    constexpr int64_t kStep = int64_t{Groups} * kLane;
    Sum sum[Groups * kBox] = {};
    const char* const first = b;
    int left = units;
    for (; left >= kLineUnits; left -= kLineUnits) {
      requests.take_turn();
      PTO_UNROLL
      for (int part = 0; part < kLineUnits; part += kUnits, b += 16, panel += kUnits * kStep)
        steps(Each(), sum, b, b_col, panel, kUnits);
    }
    for (; left >= kUnits; left -= kUnits, b += 16, panel += kUnits * kStep)
      steps(Each(), sum, b, b_col, panel, kUnits);
    if (left > 0) {  // nothing behind the ends of columns is read
      alignas(16) char rest[kLane * 16] = {};
      for (int i = 0; i < kLane; ++i)
        __builtin_memcpy(rest + i * 16, first + i * b_col + (b - first), size_t(left * kUnitBytes));
      steps(Each(), sum, rest, 16, panel, left);
    }
    end(All(), sum, rows, to, to_row);
  }
  template <int... I>
  static PTO_INLINE void end(Indices<I...>, const Sum* sum, int rows, char* to, int64_t to_row) {
    Units all[] = {bit_cast<Units>(sum[I])...};
    PTO_UNROLL
    for (int group = 0; group < Groups; ++group) {
      turn(all + group * kBox);
      for (int r = 0; r < smaller(rows - group * kBox, kBox); ++r)
        __builtin_memcpy(to + (group * kBox + r) * to_row, &all[group * kBox + r], sizeof(Units));
    }
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
