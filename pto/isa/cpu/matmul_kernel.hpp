// SPDX-License-Identifier: Apache-2.0
// Matmul kernel: the innermost loops of a matrix product: kRows x (kVectors vectors) outputs stay
// in registers while the depth passes, for three ways to multiply and add.
//
//     MicroKernel<FloatDot>::get(rows, vectors)(a, b, units, tile);
//     InPlaceKernel<FloatDot>::get(rows, vectors)(operands, tile);
//
// A unit is 32 bits of depth: one float, two int16 or four int8. Of panels, `a` holds units in
// groups of eight for each row, [units / 8][rows][8]; `b` holds them beside each other,
// [units][vectors * lanes]. Operands in place are rows of units at any distance.
//
// Invariant: outputs depend on their own row and column only, and on the order of the depth; so any
// cut into tiles gives the same bits.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/leaves.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kLane = kVectorBytes / 4;  // units, and outputs, of a vector
constexpr int kGroup = 8;                // units of a row that lie together in a panel of a
constexpr int kLineUnits = 16;           // of a cache line
#if defined(PTO_TARGET_AVX512)
constexpr int kRows = 12, kVectors = 2;  // 24 of 32 registers hold outputs
#elif defined(PTO_TARGET_AVX2)
constexpr int kRows = 6, kVectors = 2;  // 12 of 16: 8 loads for 12 multiply-adds
#else
constexpr int kRows = 4, kVectors = 2;
#endif

using Units = Vec<uint32_t, kLane>;  // unsigned: sums of integers wrap
using LooseUnits = typename VecOf<uint32_t, kLane>::loose;

// Computes a * b + c with one rounding. Without the instruction, the product is exact in double and
// the sum is rounded to odd there, so that rounding it again to float rounds correctly.
template <class V>
PTO_INLINE V multiply_add(V a, V b, V c) {
  if constexpr (lanes::kHasFma) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));  // g++ 12 would copy outputs
    return c;
  } else {
    using Wide = Vec<double, kCount<V>>;
    using Bits = Vec<int64_t, kCount<V>>;
    const Wide product = lanes::convert<double>(a) * lanes::convert<double>(b);
    const Wide addend = lanes::convert<double>(c), sum = product + addend;
    const Wide part = sum - product;
    const Wide lost = (product - (sum - part)) + (addend - part);
    const Bits bits = bit_cast<Bits>(sum);
    const Bits is_even = (bits & 1) - 1;  // all ones or zero
    const Bits inexact = (lost > Wide{}) | (lost < Wide{});
    const Bits towards_zero = (lost > Wide{}) ^ (sum > Wide{});
    const Bits step = (towards_zero & -2) + 1;  // -1 or 1
    return lanes::convert<float>(bit_cast<Wide>(bits + (step & is_even & inexact)));
  }
}

struct FloatDot {
  using Sum = Vec<float, kLane>;
  static constexpr int kPerUnit = 1;
  static PTO_INLINE Sum add(Sum sum, Units a, Units b) {
    return multiply_add(bit_cast<Sum>(a), bit_cast<Sum>(b), sum);
  }
};

// Multiplies pairs of int16: exact, since the sum of two products of int8 fits.
struct PairDot {
  using Sum = Units;
  static constexpr int kPerUnit = 2;
  static PTO_INLINE Sum add(Sum sum, Units a, Units b) {
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
    Units products;  // one assembly: g++ 12 would sum up the products of all units at the end
    asm("vpmaddwd %3, %2, %0\n\tvpaddd %0, %1, %1" : "=&v"(products), "+v"(sum) : "v"(a), "v"(b));
    return sum;
#elif defined(__SSE2__)
    asm("pmaddwd %1, %0" : "+x"(a) : "x"(b));
    return sum + a;
#else
    using Signed = Vec<int32_t, kLane>;
    const Signed x = bit_cast<Signed>(a), y = bit_cast<Signed>(b);
    return sum +
           bit_cast<Units>((bit_cast<Signed>(a << 16) >> 16) * (bit_cast<Signed>(b << 16) >> 16)) +
           bit_cast<Units>((x >> 16) * (y >> 16));
#endif
  }
};

#if defined(PTO_TARGET_AVX512)
// Multiplies quads, of a as uint8 and of b as int8. Its assembly needs no compiler flag; the caller
// has asked the CPU.
struct QuadDot {
  using Sum = Units;
  static constexpr int kPerUnit = 4;
  static PTO_INLINE Sum add(Sum sum, Units a, Units b) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
};
#endif

// Multiplies pairs of bf16, the second ones first, as `Pairs` does; subnormals count as zeros.
template <class Pairs>
struct Bf16Dot {
  using Sum = Vec<float, kLane>;
  static constexpr int kPerUnit = 2;
  static PTO_INLINE Sum add(Sum sum, Units a, Units b) { return Pairs::add(sum, a, b); }
};

#if defined(PTO_TARGET_AVX512)
// Its assembly needs no compiler flag; the caller has asked the CPU.
struct HardwarePairs {
  static PTO_INLINE Vec<float, kLane> add(Vec<float, kLane> sum, Units a, Units b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
};
#endif

// The part of b that another tile reads soon, to be asked for meanwhile: `step` bytes a unit.
struct Soon {
  const char* at;  // null: nothing
  int64_t step;
};

// The sources and destinations of one tile's outputs. Rows lie `stride` bytes apart, the vectors of
// a row anywhere.
struct Outputs {
  const char* from[kVectors];  // null: zeros
  char* to[kVectors];
  int64_t from_stride, to_stride;
  const int32_t* first;  // a row of outputs that is added at once; or null
  const int32_t* last;   // a row that is added at the end; or null
  Soon soon;
};

// Operands where the caller keeps them: units of a row of `a` lie together, rows `a_row` units
// apart; b's columns lie together, its units `b_unit` apart. Panels lie beside each other.
struct InPlace {
  const int32_t *a, *b;
  int64_t a_row, b_unit;
  int units, panels;
  int64_t ahead;  // units from those of b that are read to those to prefetch
};

// Only expressions folded over constants touch the array of outputs: loops over it would keep it
// in memory.
template <class Dot, int Rows, int Vectors>
struct Micro {
  using Sum = typename Dot::Sum;
  using LooseSum = typename VecOf<LaneOf<Sum>, kLane>::loose;
  using All = typename IndicesTo<Rows * Vectors>::type;
  using Across = typename IndicesTo<Vectors>::type;
  using Down = typename IndicesTo<Rows>::type;

  static PTO_INLINE Sum load(const void* p) { return *static_cast<const LooseSum*>(p); }

  template <int... I>
  static PTO_INLINE void begin(Indices<I...>, Sum* sum, const Outputs& t) {
    if (t.from[0])
      ((sum[I] = load(t.from[I % Vectors] + I / Vectors * t.from_stride)), ...);
    else
      ((sum[I] = Sum{}), ...);
    if (t.first) ((sum[I] = sum[I] + load(t.first + I % Vectors * kLane)), ...);
  }

  template <int... I>
  static PTO_INLINE void end(Indices<I...>, Sum* sum, const Outputs& t) {
    if (t.last) ((sum[I] = sum[I] + load(t.last + I % Vectors * kLane)), ...);
    ((*reinterpret_cast<LooseSum*>(t.to[I % Vectors] + I / Vectors * t.to_stride) = sum[I]), ...);
  }

  template <int Row, int... J>
  static PTO_INLINE void row(Indices<J...>, Sum* sum, int32_t unit, const Units* right) {
    Units left = lanes::splat<Units>(uint32_t(unit));
#if defined(PTO_TARGET_AVX512)
    asm("" : "+v"(left));  // one broadcast, not one in each instruction
#endif
    ((sum[Row * Vectors + J] = Dot::add(sum[Row * Vectors + J], left, right[J])), ...);
  }

  template <int... I, int... J>
  static PTO_INLINE void step(Indices<I...>, Indices<J...> across, Sum* sum, const int32_t* a,
                              const int32_t* b) {
    Units right[Vectors];
    ((right[J] = *reinterpret_cast<const LooseUnits*>(b + J * kLane)), ...);
    (row<I>(across, sum, a[I * kGroup], right), ...);
  }

  template <int... I, int... J>
  static PTO_INLINE void step_in_place(Indices<I...>, Indices<J...> across, Sum* sum,
                                       const int32_t* a, int64_t a_row, const int32_t* b) {
    Units right[Vectors];
    ((right[J] = *reinterpret_cast<const LooseUnits*>(b + J * kLane)), ...);
    (row<I>(across, sum, a[I * a_row], right), ...);
  }

  template <int... J>
  static PTO_INLINE void advance(Indices<J...>, Outputs& t) {
    constexpr int kBytes = Vectors * kLane * 4;
    ((t.to[J] += kBytes), ...);
    if (t.from[0]) ((t.from[J] += kBytes), ...);
    if (t.first) t.first += Vectors * kLane;
    if (t.last) t.last += Vectors * kLane;
  }

  // Into the second cache: a panel would push the present one out of the first.
  static PTO_INLINE void ask(const char*& soon, int64_t step) {
    __builtin_prefetch(soon, 0, 2);
    soon += step;
  }
  static PTO_INLINE const char* soon_of(const Outputs& t, const int32_t* b) {
    return t.soon.at ? t.soon.at : reinterpret_cast<const char*>(b);
  }

  static void run_in_place(const InPlace& in, Outputs t) {
    constexpr int kStride = Vectors * kLane, kSteps = 4;
    const int32_t* b = in.b;
    const char* soon = soon_of(t, b);
    for (int panel = 0; panel < in.panels; ++panel, b += kStride, advance(Across(), t)) {
      Sum sum[Rows * Vectors];
      begin(All(), sum, t);
      const int32_t *left = in.a, *right = b;
      int units = in.units;
      for (; units >= kSteps; units -= kSteps, left += kSteps, right += kSteps * in.b_unit) {
        PTO_UNROLL
        for (int u = 0; u < kSteps; ++u) {
          const int32_t* const at = right + u * in.b_unit;
          for (int line = 0; line < kStride; line += kLineUnits)
            __builtin_prefetch(at + in.ahead + line);
          ask(soon, t.soon.step);
          step_in_place(Down(), Across(), sum, left + u, in.a_row, at);
        }
      }
      for (int u = 0; u < units; ++u)
        step_in_place(Down(), Across(), sum, left + u, in.a_row, right + u * in.b_unit);
      end(All(), sum, t);
    }
  }

  static void run(const int32_t* a, const int32_t* b, int units, const Outputs& t) {
    constexpr int kStride = Vectors * kLane;
    Sum sum[Rows * Vectors];
    begin(All(), sum, t);
    const char* soon = soon_of(t, b);
    for (; units >= kGroup; units -= kGroup, a += Rows * kGroup, b += kGroup * kStride) {
      PTO_UNROLL
      for (int u = 0; u < kGroup; ++u) {
        ask(soon, t.soon.step);
        step(Down(), Across(), sum, a + u, b + u * kStride);
      }
    }
    for (int u = 0; u < units; ++u) step(Down(), Across(), sum, a + u, b + u * kStride);
    end(All(), sum, t);
  }
};

// The kernels of one way to read operands, by the number of rows, 1 to kRows, and of vectors, 1 to
// kVectors.
template <class Way>
struct KernelTable {
  using Run = decltype(Way::template kernel<1, 1>());
  Run run[kVectors][kRows];

  template <int V, int... R>
  constexpr void fill(Indices<R...>) {
    ((run[V][R] = Way::template kernel<R + 1, V + 1>()), ...);
  }
  template <int... V>
  static constexpr KernelTable of(Indices<V...>) {
    KernelTable all = {};
    (all.template fill<V>(typename IndicesTo<kRows>::type()), ...);
    return all;
  }
  static Run get(int rows, int vectors) {
    static constexpr KernelTable kTable = of(typename IndicesTo<kVectors>::type());
    return kTable.run[vectors - 1][rows - 1];
  }
};

template <class Dot>
struct FromPanels {
  template <int Rows, int Vectors>
  static constexpr auto kernel() {
    return &Micro<Dot, Rows, Vectors>::run;
  }
};
template <class Dot>
struct FromPlaces {
  template <int Rows, int Vectors>
  static constexpr auto kernel() {
    return &Micro<Dot, Rows, Vectors>::run_in_place;
  }
};
template <class Dot>
using MicroKernel = KernelTable<FromPanels<Dot>>;
template <class Dot>
using InPlaceKernel = KernelTable<FromPlaces<Dot>>;

}  // namespace matmul
PTO_NAMESPACE_END
