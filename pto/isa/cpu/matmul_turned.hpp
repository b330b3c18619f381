// SPDX-License-Identifier: Apache-2.0
// Matmul turned: a few rows of floats by columns of b, such as the rows of a weight or the keys of
// a head, which are turned in registers.
//
//     Turned<3>::run(Turned<3>::All(), {a, a_row, b, b_col, depth}, {nullptr, 0}, {c, c_row}, ask);
//
// Invariant: reads depth units of kCols columns and writes Rows x kCols outputs, each summed up in
// the order of the units.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_dot.hpp"
#include "pto/isa/cpu/matmul_requests.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Prefetches lines of kLane columns of `depth` units of so many bytes into a cache, 1 the nearest:
// those `Bytes` behind the ones that are read, and behind the ends of columns the lines of the next
// tile.
template <int UnitBytes, int Bytes, int Cache>
PTO_INLINE void ask_ahead(const char* b, int64_t b_col, int depth, int left, int cols) {
  const int64_t ahead = Bytes + (Bytes < left * UnitBytes ? 0 : cols * b_col - depth * UnitBytes);
  for (int i = 0; i < kLane; ++i) __builtin_prefetch(b + i * b_col + ahead, 0, 4 - Cache);
}

// Asks for columns of floats where nobody has.
struct AskAhead {
  template <int UnitBytes>
  PTO_INLINE void line(const char* b, int64_t b_col, int depth, int left, int cols) const {
    ask_ahead<UnitBytes, 256, 2>(b, b_col, depth, left, cols);
  }
  PTO_INLINE void part() const {}
};
// Asks for the rows of columns that pass soon: as many lines as these columns have.
struct AskNear {
  NearRows& rows;
  template <int UnitBytes>
  PTO_INLINE void line(const char*, int64_t, int, int, int) const {}
  PTO_INLINE void part() const { rows.ask<moves::kLaneCount<4> * kLane / kLineUnits>(); }
};

// Makes `Rows` outputs of two vectors of columns from columns of T, float or bf16. Units of Dot are
// floats, or pairs of bf16.
template <int Rows, class T = float, class Dot = FloatDot>
struct Turned {
  static constexpr int kWide = 2;
  static constexpr int kCols = kWide * kLane;
  static constexpr int kBytes = sizeof(T) * Dot::kPerUnit, kPerWord = 4 / kBytes;  // of a unit
  static constexpr int kWords = moves::kLaneCount<4>;      // that are turned at once
  static constexpr int kBlock = kWords * kPerWord;         // units of them
  static constexpr int kLineLength = kLineBytes / kBytes;  // units
  // Apart at most where both groups pass at once: the first cache keeps a line of each column.
  static constexpr int64_t kNearColumns = kVectorBytes == 64 ? 1 << 10 : 0;
  static constexpr int kSharingRows = 10;  // whose sums leave registers for both groups' units
  using Sum = typename Dot::Sum;
  using All = typename IndicesTo<Rows * kWide>::type;
  using Down = typename IndicesTo<Rows>::type;

  // Rows of units of a, and columns of b at a distance in bytes.
  struct Factors {
    const int32_t* a;
    int64_t a_row;
    const char* b;
    int64_t b_col;
    int depth;
  };
  struct From {
    const int32_t* at;  // null: zeros
    int64_t row;
  };
  struct To {
    int32_t* at;
    int64_t row;
  };

  // Adds the products of one unit to the sums of column group G.
  template <int G, int... R>
  static PTO_INLINE void step(Indices<R...>, Sum* sum, const int32_t* a, int64_t a_row, Units b) {
    ((sum[R * kWide + G] =
          Dot::add(sum[R * kWide + G], lanes::splat<Units>(uint32_t(a[R * a_row])), b)),
     ...);
  }
  // Adds those of one row to the sums of both groups: the unit of a is loaded once.
  template <int R>
  static PTO_INLINE void row(Sum* sum, const int32_t* a, int64_t a_row, const Units (&b)[kWide]) {
    Units left = lanes::splat<Units>(uint32_t(a[R * a_row]));
#if defined(PTO_TARGET_AVX512)
    asm("" : "+v"(left));  // one broadcast, not one in each instruction
#endif
    sum[R * kWide] = Dot::add(sum[R * kWide], left, b[0]);
    sum[R * kWide + 1] = Dot::add(sum[R * kWide + 1], left, b[1]);
  }
  template <int... R>
  static PTO_INLINE void rows(Indices<R...>, Sum* sum, const int32_t* a, int64_t a_row, Units b,
                              Units beside) {
    (row<R>(sum, a, a_row, {b, beside}), ...);
  }
  template <class Ask>
  static PTO_INLINE void parts(Sum* sum, const Factors& f, const Ask& ask) {
    Units words[kWords], beside[kWords];
    ask.part();
    moves::load_transposed<4, kLane>(words, f.b, f.b_col);
    ask.part();
    moves::load_transposed<4, kLane>(beside, f.b + kLane * f.b_col, f.b_col);
    PTO_UNROLL
    for (int u = 0; u < kWords; ++u) {
      if constexpr (kPerWord == 1) {
        rows(Down(), sum, f.a + u, f.a_row, words[u], beside[u]);
      } else {
        rows(Down(), sum, f.a + 2 * u, f.a_row, words[u] << 16, beside[u] << 16);
        rows(Down(), sum, f.a + 2 * u + 1, f.a_row, words[u] & 0xffff0000u,
             beside[u] & 0xffff0000u);
      }
    }
  }
  template <int G>
  static PTO_INLINE void part(Sum* sum, const Factors& f) {
    Units words[kWords];
    moves::load_transposed<4, kLane>(words, f.b + G * kLane * f.b_col, f.b_col);
    PTO_UNROLL
    for (int u = 0; u < kWords; ++u) {
      if constexpr (kPerWord == 1) {
        step<G>(Down(), sum, f.a + u, f.a_row, words[u]);
      } else {
        step<G>(Down(), sum, f.a + 2 * u, f.a_row, words[u] << 16);
        step<G>(Down(), sum, f.a + 2 * u + 1, f.a_row, words[u] & 0xffff0000u);
      }
    }
  }
  // Units that share cache lines follow each other: columns may lie 4 KB apart, where few lines are
  // all that the first cache keeps.
  template <int G, class Ask>
  static PTO_INLINE void line(Sum* sum, Factors f, int depth, const Ask& ask) {
    ask.template line<kBytes>(f.b + G * kLane * f.b_col, f.b_col, depth, f.depth, kCols);
    for (int done = 0; done < kLineLength; done += kBlock, f.a += kBlock, f.b += kBlock * kBytes) {
      ask.part();
      part<G>(sum, f);
    }
  }
  // The same for both groups at once: the sums of a row wait for each other, and a CPU that looks
  // one line ahead would find those of one group only.
  template <class Ask>
  static PTO_INLINE void lines(Sum* sum, Factors f, int depth, const Ask& ask) {
    ask.template line<kBytes>(f.b, f.b_col, depth, f.depth, kCols);
    ask.template line<kBytes>(f.b + kLane * f.b_col, f.b_col, depth, f.depth, kCols);
    for (int done = 0; done < kLineLength; done += kBlock, f.a += kBlock, f.b += kBlock * kBytes) {
      if constexpr (Rows <= kSharingRows) {
        parts(sum, f, ask);
      } else {
        ask.part();
        part<0>(sum, f);
        ask.part();
        part<1>(sum, f);
      }
    }
  }
  static PTO_INLINE uint32_t word(const char* unit) {
    uint32_t pair;
    if constexpr (Dot::kPerUnit == 1)
      return bit_cast<uint32_t>(float(*reinterpret_cast<const T*>(unit)));
    __builtin_memcpy(&pair, unit, sizeof pair);
    return pair;
  }
  template <int G>
  static PTO_INLINE void one(Sum* sum, const Factors& f) {
    Units unit;
    for (int i = 0; i < kLane; ++i) unit[i] = word(f.b + (G * kLane + i) * f.b_col);
    step<G>(Down(), sum, f.a, f.a_row, unit);
  }

  template <class Ask, int... I>
  static PTO_INLINE void run(Indices<I...>, Factors f, From from, To to, const Ask& ask) {
    Sum sum[Rows * kWide];
    if (from.at)
      ((sum[I] = bit_cast<Sum>(*reinterpret_cast<const LooseUnits*>(from.at + I / kWide * from.row +
                                                                    I % kWide * kLane))),
       ...);
    else
      ((sum[I] = Sum{}), ...);
    const int depth = f.depth;
    const auto go_on = [&f](int units) { f.a += units, f.b += units * kBytes, f.depth -= units; };
    for (; f.depth >= kLineLength; go_on(kLineLength)) {
      if (kNearColumns > 0 && f.b_col <= kNearColumns) {
        lines(sum, f, depth, ask);
      } else {
        line<0>(sum, f, depth, ask);
        line<1>(sum, f, depth, ask);
      }
    }
    for (; f.depth >= kBlock; go_on(kBlock)) part<0>(sum, f), part<1>(sum, f);
    for (; f.depth > 0; go_on(1)) one<0>(sum, f), one<1>(sum, f);
    ((*reinterpret_cast<LooseUnits*>(to.at + I / kWide * to.row + I % kWide * kLane) =
          bit_cast<Units>(sum[I])),
     ...);
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
