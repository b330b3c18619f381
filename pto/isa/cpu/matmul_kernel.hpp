// SPDX-License-Identifier: Apache-2.0
// Matmul kernel: the innermost loops of a matrix product: kRows x (kVectors vectors) outputs stay
// in registers while the depth passes, for each way to multiply and add.
//
//     MicroKernel<FloatDot>::get(rows, vectors)(a, b, units, tile);
//     InPlaceKernel<FloatDot>::get(rows, vectors)(operands, tile);
//
// A unit is what a lane multiplies at once: one number, two int16 or four int8. `a` holds
// units in groups of eight for each row, [units / 8][rows][8]; a panel of b has them side by side,
// [units][vectors * lanes], and pairs of int8 as bytes, which are widened while they are loaded.
// Operands in place are rows of units at any distance.
//
// Invariant: outputs depend on their own row and column only, and on the order of the depth; so any
// cut into tiles gives the same bits.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/leaves.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kLane = kVectorBytes / 4;  // units of 32 bits, and their outputs, of a vector
constexpr int kGroup = 8;                // units of a row that lie together in a panel of a
constexpr int kLineUnits = 16;           // of 32 bits, in a cache line
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

// A way to multiply: Sum is a vector of outputs, Unit of a, Vector those of b. A panel of b keeps
// kRightBytes of each unit.
struct FloatDot {
  using Unit = int32_t;
  using Sum = Vec<float, kLane>;
  using Vector = Units;
  static constexpr int kPerUnit = 1, kRightBytes = 4;
  static PTO_INLINE Vector load(const char* b) { return *reinterpret_cast<const LooseUnits*>(b); }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    return multiply_add(bit_cast<Sum>(a), bit_cast<Sum>(b), sum);
  }
};

struct DoubleDot {
  using Unit = int64_t;
  using Sum = Vec<double, kLane / 2>;
  using Vector = Vec<uint64_t, kLane / 2>;
  static constexpr int kPerUnit = 1, kRightBytes = 8;
  static PTO_INLINE Vector load(const char* b) {
    return *reinterpret_cast<const typename VecOf<uint64_t, kLane / 2>::loose*>(b);
  }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    const Sum x = bit_cast<Sum>(a), y = bit_cast<Sum>(b);
    if constexpr (lanes::kHasFma)
      asm("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    else
      for (int i = 0; i < kCount<Sum>; ++i) sum[i] = __builtin_fma(x[i], y[i], sum[i]);
    return sum;
  }
};

// Multiplies whole integers of 32 or 64 bits: sums wrap.
template <class T>
struct WrappingDot {
  using Unit = T;
  using Sum = Vec<typename WordOf<sizeof(T)>::Unsigned, kVectorBytes / int(sizeof(T))>;
  using Vector = Sum;
  static constexpr int kPerUnit = 1, kRightBytes = sizeof(T);
  static PTO_INLINE Vector load(const char* b) {
    return *reinterpret_cast<const typename VecOf<LaneOf<Sum>, kCount<Sum>>::loose*>(b);
  }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    sum += a * b;
    if constexpr (kVectorBytes >= 32)
      asm("" : "+v"(sum));  // g++ 12 would sum up products at the end
    return sum;
  }
};

// Multiplies pairs of int16: exact, since the sum of two products of bytes fits, and that of int16
// wraps. T: the type of b; bytes are widened while they are loaded.
template <class T>
struct PairDot {
  using Unit = int32_t;
  using Sum = Units;
  using Vector = Units;
  static constexpr int kPerUnit = 2, kRightBytes = 2 * sizeof(T);
  static PTO_INLINE Vector load(const char* b) {
    using Loose = typename VecOf<T, 2 * kLane>::loose;
    const Loose& narrow = *reinterpret_cast<const Loose*>(b);
#if defined(PTO_TARGET_AVX512) || defined(PTO_TARGET_AVX2)
    Units wide;  // with its operand in memory, in one instruction
    if constexpr (kSame<T, int8_t>) {
      asm("vpmovsxbw %1, %0" : "=v"(wide) : "m"(narrow));
      return wide;
    } else if constexpr (kSame<T, uint8_t>) {
      asm("vpmovzxbw %1, %0" : "=v"(wide) : "m"(narrow));
      return wide;
    }
#endif
    return bit_cast<Units>(lanes::convert<int16_t>(Vec<T, 2 * kLane>(narrow)));
  }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
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
// Multiplies quads of bytes, one factor unsigned, the other signed: T is the type of b, and a has
// the other sign. Its assembly needs no compiler flag; the caller has asked the CPU.
template <class T>
struct QuadDot {
  using Unit = int32_t;
  using Sum = Units;
  using Vector = Units;
  static constexpr int kPerUnit = 4, kRightBytes = 4;
  static PTO_INLINE Vector load(const char* b) { return *reinterpret_cast<const LooseUnits*>(b); }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) {
    if constexpr (kSame<T, int8_t>)
      asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    else
      asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(b), "v"(a));
    return sum;
  }
};
#endif

// Multiplies pairs of bf16, the second ones first, as `Pairs` does; subnormals count as zeros.
template <class Pairs>
struct Bf16Dot {
  using Unit = int32_t;
  using Sum = Vec<float, kLane>;
  using Vector = Units;
  static constexpr int kPerUnit = 2, kRightBytes = 4;
  static PTO_INLINE Vector load(const char* b) { return *reinterpret_cast<const LooseUnits*>(b); }
  static PTO_INLINE Sum add(Sum sum, Vector a, Vector b) { return Pairs::add(sum, a, b); }
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

// The lanes of a way to multiply.
template <class Dot>
constexpr int kDotLanes = kVectorBytes / int(sizeof(typename Dot::Unit));

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
  const void* first;  // a row of outputs that is added at once; or null
  const void* last;   // a row that is added at the end; or null
  Soon soon;
};

// Operands where the caller keeps them: units of a row of `a` lie together, rows `a_row` units
// apart; b's columns lie together, its units `b_unit` columns apart. Panels lie beside each other.
struct InPlace {
  const void *a, *b;
  int64_t a_row, b_unit;
  int units, panels;
  int64_t ahead;  // units from those of b that are read to those to prefetch
};

// Only expressions folded over constants touch the array of outputs: loops over it would keep it
// in memory.
template <class Dot, int Rows, int Vectors>
struct Micro {
  using Unit = typename Dot::Unit;
  using Sum = typename Dot::Sum;
  using Right = typename Dot::Vector;
  using LooseSum = typename VecOf<LaneOf<Sum>, kCount<Sum>>::loose;
  using All = typename IndicesTo<Rows * Vectors>::type;
  using Across = typename IndicesTo<Vectors>::type;
  using Down = typename IndicesTo<Rows>::type;
  static constexpr int kLane = kDotLanes<Dot>;
  static constexpr int kBytes = kLane * Dot::kRightBytes;  // of a vector of b

  static PTO_INLINE Sum load(const void* p, int64_t vector) {
    return *reinterpret_cast<const LooseSum*>(static_cast<const char*>(p) + vector * kVectorBytes);
  }

  template <int... I>
  static PTO_INLINE void begin(Indices<I...>, Sum* sum, const Outputs& t) {
    if (t.from[0])
      ((sum[I] = load(t.from[I % Vectors] + I / Vectors * t.from_stride, 0)), ...);
    else
      ((sum[I] = Sum{}), ...);
    if (t.first) ((sum[I] = sum[I] + load(t.first, I % Vectors)), ...);
  }

  template <int... I>
  static PTO_INLINE void end(Indices<I...>, Sum* sum, const Outputs& t) {
    if (t.last) ((sum[I] = sum[I] + load(t.last, I % Vectors)), ...);
    ((*reinterpret_cast<LooseSum*>(t.to[I % Vectors] + I / Vectors * t.to_stride) = sum[I]), ...);
  }

  template <int Row, int... J>
  static PTO_INLINE void row(Indices<J...>, Sum* sum, Unit unit, const Right* right) {
    Right left = lanes::splat<Right>(LaneOf<Right>(unit));
#if defined(PTO_TARGET_AVX512)
    asm("" : "+v"(left));  // one broadcast, not one in each instruction
#endif
    ((sum[Row * Vectors + J] = Dot::add(sum[Row * Vectors + J], left, right[J])), ...);
  }

  // `a_row`: from a row's unit to that of the next.
  template <int... I, int... J>
  static PTO_INLINE void step(Indices<I...>, Indices<J...> across, Sum* sum, const Unit* a,
                              int64_t a_row, const char* b) {
    Right right[Vectors];
    ((right[J] = Dot::load(b + J * kBytes)), ...);
    (row<I>(across, sum, a[I * a_row], right), ...);
  }

  template <int... J>
  static PTO_INLINE void advance(Indices<J...>, Outputs& t) {
    constexpr int kRow = Vectors * kVectorBytes;
    ((t.to[J] += kRow), ...);
    if (t.from[0]) ((t.from[J] += kRow), ...);
    if (t.first) t.first = static_cast<const char*>(t.first) + kRow;
    if (t.last) t.last = static_cast<const char*>(t.last) + kRow;
  }

  // Into the second cache: a panel would push the present one out of the first.
  static PTO_INLINE void ask(const char*& soon, int64_t step) {
    __builtin_prefetch(soon, 0, 2);
    soon += step;
  }
  static PTO_INLINE const char* soon_of(const Outputs& t, const char* b) {
    return t.soon.at ? t.soon.at : b;
  }

  static void run_in_place(const InPlace& in, Outputs t) {
    constexpr int kSteps = 4, kLine = 64;
    const char* b = static_cast<const char*>(in.b);
    const int64_t b_unit = in.b_unit * Dot::kRightBytes, ahead = in.ahead * Dot::kRightBytes;
    const char* soon = soon_of(t, b);
    for (int panel = 0; panel < in.panels; ++panel, b += Vectors * kBytes, advance(Across(), t)) {
      Sum sum[Rows * Vectors];
      begin(All(), sum, t);
      const auto* left = static_cast<const Unit*>(in.a);
      const char* right = b;
      int units = in.units;
      for (; units >= kSteps; units -= kSteps, left += kSteps, right += kSteps * b_unit) {
        PTO_UNROLL
        for (int u = 0; u < kSteps; ++u) {
          const char* const at = right + u * b_unit;
          for (int line = 0; line < Vectors * kBytes; line += kLine)
            __builtin_prefetch(at + ahead + line);
          ask(soon, t.soon.step);
          step(Down(), Across(), sum, left + u, in.a_row, at);
        }
      }
      for (int u = 0; u < units; ++u)
        step(Down(), Across(), sum, left + u, in.a_row, right + u * b_unit);
      end(All(), sum, t);
    }
  }

  static void run(const Unit* a, const void* panel, int units, const Outputs& t) {
    constexpr int kStride = Vectors * kBytes;
    const char* b = static_cast<const char*>(panel);
    Sum sum[Rows * Vectors];
    begin(All(), sum, t);
    const char* soon = soon_of(t, b);
    for (; units >= kGroup; units -= kGroup, a += Rows * kGroup, b += kGroup * kStride) {
      PTO_UNROLL
      for (int u = 0; u < kGroup; ++u) {
        ask(soon, t.soon.step);
        step(Down(), Across(), sum, a + u, kGroup, b + u * kStride);
      }
    }
    for (int u = 0; u < units; ++u) step(Down(), Across(), sum, a + u, kGroup, b + u * kStride);
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
