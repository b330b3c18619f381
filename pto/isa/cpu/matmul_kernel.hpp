// SPDX-License-Identifier: Apache-2.0
// Matmul kernel: the innermost loops of a matrix product: kRows x (kVectors vectors) outputs stay
// in registers while the depth passes, for each way to multiply and add.
//
//     MicroKernel<FloatDot>::get(rows, vectors)(operands, outputs);
//     InPlaceKernel<FloatDot>::get(rows, vectors)(in_place, outputs);
//
// Units are those of matmul_dot.hpp. `a` holds them in groups of eight for each row,
// [units / 8][rows][8]; a panel of b has them side by side, [units][vectors * lanes], and pairs of
// int8 as bytes, which are widened while they are loaded. Operands in place are rows of units at
// any distance.
//
// Invariant: outputs depend on their own row and column only, and on the order of the depth; so any
// cut into tiles gives the same bits.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/matmul_dot.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kGroup = 8;                        // units of a row that lie together in a panel of a
constexpr int kLineBytes = 64, kLineUnits = 16;  // of a cache line; units of 32 bits
#if defined(PTO_TARGET_AVX512)
constexpr int kRows = 12, kVectors = 2;  // 24 of 32 registers hold outputs
#elif defined(PTO_TARGET_AVX2)
constexpr int kRows = 6, kVectors = 2;  // 12 of 16: 8 loads for 12 multiply-adds
#else
constexpr int kRows = 4, kVectors = 2;
#endif

// A sliver: the rows of a that one panel of a holds.
struct SliverRows {
  int begin, count;
};

// The part of b that another tile reads soon, to be asked for meanwhile: with each unit one or two
// lines, `step` bytes behind those before; those of the next group of units `group_step` farther.
struct Soon {
  const char* at;  // null: nothing
  int64_t step, group_step;
  // Returns how far a tile goes on.
  int64_t bytes(int units) const { return units / kGroup * (kGroup * step + group_step); }
};

// The sources and destinations of the outputs of a tile, the first of those below each other. Rows
// lie `stride` bytes apart, the vectors of a row anywhere.
struct Outputs {
  const char* from[kVectors];  // null: zeros
  char* to[kVectors];
  int64_t from_stride, to_stride;
  const void* first;  // a row of outputs that is added at once; or null
  const void* last;   // a row that is added at the end; or null
  bool rounds;        // to bf16; only pairs of bf16 can
  Soon soon;
};

// Operands of tiles below each other: one panel of b, and `slivers` of rows of a, `a_sliver` units
// apart.
struct Operands {
  const void *a, *b;
  int units, slivers;
  int64_t a_sliver;
};

// The same where the caller keeps them. Groups of eight units of a row of `a` lie together,
// `a_group` apart, rows `a_row` apart; b's columns lie together, its units `b_unit` columns apart.
struct InPlace {
  Operands of;
  int64_t a_row, a_group, b_unit;
  int panels;     // beside each other
  int64_t ahead;  // columns from those of b that are read to those to prefetch; 0: none
  void* panel;    // takes the panel of b that a copying kernel reads
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
  static constexpr bool kPairs = kReadsRows<Dot> && Dot::kPerUnit > 1;
  static constexpr int kLane = kDotLanes<Dot>;
  static constexpr int kBytes = kLane * Dot::kRightBytes;  // of a vector of b
  static constexpr int kPanel = Vectors * kBytes;          // of a unit of a panel
  static constexpr int kWidth = Vectors * kLane;

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
  static PTO_INLINE void round(Indices<I...>, const Sum* sum, const Outputs& t) {
    const Vec<uint16_t, kLane> narrow[] = {Dot::rounded(sum[I])...};
    (__builtin_memcpy(t.to[I % Vectors] + I / Vectors * t.to_stride, &narrow[I], sizeof narrow[I]),
     ...);
  }

  template <int... I>
  static PTO_INLINE void end(Indices<I...>, Sum* sum, const Outputs& t) {
    if (t.last) ((sum[I] = sum[I] + load(t.last, I % Vectors)), ...);
    if constexpr (kPairs) {
      if (t.rounds) return round(Indices<I...>(), sum, t);
    }
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

  // A unit of each row of a, which lie in a panel or in place.
  struct Packed {
    const Unit* first;
    template <int Row>
    PTO_INLINE Unit at(int unit) const {
      return first[Row * kGroup + unit];
    }
  };
  // Three rows that share a register with their distance are as many as addresses can name.
  struct Placed {
    static constexpr int kShare = 3, kFirsts = (Rows + kShare - 1) / kShare;
    const Unit* first[kFirsts];
    int64_t row;
    PTO_INLINE Placed(const Unit* a, int64_t distance) : row(distance) {
      PTO_UNROLL
      for (int i = 0; i < kFirsts; ++i) {
        first[i] = a + i * kShare * row;
        keep(first[i]);
      }
    }
    template <int Row>
    PTO_INLINE Unit at(int) const {
      return first[Row / kShare][Row % kShare * row];
    }
    PTO_INLINE void go_on(int64_t units) {
      PTO_UNROLL
      for (int i = 0; i < kFirsts; ++i) {
        first[i] += units;
        keep(first[i]);
      }
    }
  };
  // Hides how a pointer came about: the compiler would keep many multiples of its steps in memory.
  template <class P>
  static PTO_INLINE void keep(P& pointer) {
    asm("" : "+r"(pointer));
  }

  template <class T>
  using Element = typename Choose<kSame<T, void>, char, T>::type;

  // Loads a vector of a unit of b, or widens elements of T.
  template <class T>
  static PTO_INLINE Right loaded(const char* b, int vector) {
    if constexpr (kSame<T, void> || kSame<T, float>)
      return Dot::load(b + vector * kBytes);
    else
      return bit_cast<Right>(lanes::load<kLane>(reinterpret_cast<const T*>(b) + vector * kLane));
  }

  // Loads a vector of units of b: one number each, or the numbers of two rows.
  template <class T>
  static PTO_INLINE Right unit_of(const char* b, int64_t b_row, int vector) {
    if constexpr (kSame<T, void> || Dot::kPerUnit == 1) {
      return loaded<T>(b, vector);
    } else {
      const auto* const even = reinterpret_cast<const uint16_t*>(b) + vector * kLane;
      const auto* const odd = reinterpret_cast<const uint16_t*>(b + b_row) + vector * kLane;
      return widened(even) | widened(odd) << 16;
    }
  }
  static PTO_INLINE Right widened(const uint16_t* p) {
    Vec<uint16_t, kLane> v;
    __builtin_memcpy(&v, p, sizeof v);
    return lanes::convert<uint32_t>(v);
  }

  // Copies b, of elements of T, to `panel`; void: does not. `b_row`: bytes between rows of b.
  template <class T, class Left, int... I, int... J>
  static PTO_INLINE void step(Indices<I...>, Indices<J...> across, Sum* sum, const Left& left,
                              int unit, const char* b, char* panel = nullptr, int64_t b_row = 0) {
    Right right[Vectors];
    ((right[J] = unit_of<T>(b, b_row, J)), ...);
    if constexpr (!kSame<T, void>)
      ((*reinterpret_cast<LooseUnits*>(panel + J * kBytes) = right[J]), ...);
    (row<I>(across, sum, left.template at<I>(unit), right), ...);
  }

  // Goes on to the outputs beside these.
  template <int... J>
  static PTO_INLINE void go_across(Indices<J...>, Outputs& t) {
    constexpr int kRow = Vectors * kVectorBytes;
    ((t.to[J] += kRow), ...);
    if (t.from[0]) ((t.from[J] += kRow), ...);
    if (t.first) t.first = static_cast<const char*>(t.first) + kRow;
    if (t.last) t.last = static_cast<const char*>(t.last) + kRow;
  }
  // Goes on to the outputs below these.
  template <int... J>
  static PTO_INLINE void go_down(Indices<J...>, Outputs& t) {
    ((t.to[J] += Rows * t.to_stride), ...);
    if (t.from[0]) ((t.from[J] += Rows * t.from_stride), ...);
  }
  // Prefetches the outputs below these, which lie in short runs far apart.
  template <int... I>
  static PTO_INLINE void expect(Indices<I...>, const Outputs& t) {
    (__builtin_prefetch(t.to[I % Vectors] + (Rows + I / Vectors) * t.to_stride, 1), ...);
  }

  // Asks for the one or two lines of a unit, into the second cache: the first one would lose other
  // lines for them, and has room for fewer requests at a time.
  static PTO_INLINE void ask(const char*& soon, int64_t step) {
    __builtin_prefetch(soon, 0, 2);
    if constexpr (kPanel > kLineBytes) __builtin_prefetch(soon + kLineBytes, 0, 2);
    soon += step;
    keep(soon);
  }
  static PTO_INLINE const char* soon_of(const Outputs& t, const char* b) {
    return t.soon.at ? t.soon.at : b;
  }

  template <class T>
  static void run_in_place(const InPlace& in, Outputs t) {
    const auto* a = static_cast<const Unit*>(in.of.a);
    const char* soon = soon_of(t, static_cast<const char*>(in.of.b));
    for (int s = 0; s < in.of.slivers; ++s, a += in.of.a_sliver, go_down(Across(), t)) {
      Outputs beside = t;
      if (s + 1 < in.of.slivers) expect(All(), t);
      const auto* b = static_cast<const char*>(in.of.b);
      for (int panel = 0; panel < in.panels; ++panel, b += kPanel, go_across(Across(), beside))
        soon = tile_in_place<T>(in, a, b, beside, soon);
    }
  }

  // Returns what to ask for next.
  template <class T>
  static PTO_INLINE const char* tile_in_place(const InPlace& in, const Unit* a, const char* b,
                                              const Outputs& t, const char* soon) {
    constexpr bool kCopies = !kSame<T, void>;
    constexpr int kLine = 64, kOne = kCopies ? int(sizeof(Element<T>)) : Dot::kRightBytes;
    const int64_t b_row = in.b_unit * kOne, ahead = in.ahead * kOne;
    const int64_t b_unit = kCopies ? Dot::kPerUnit * b_row : b_row;
    Sum sum[Rows * Vectors];
    begin(All(), sum, t);
    auto* panel = static_cast<char*>(in.panel);
    int units = in.of.units;
    Placed left(a, in.a_row);
    for (; units >= kGroup; units -= kGroup, left.go_on(in.a_group - kGroup)) {
      PTO_UNROLL
      for (int u = 0; u < kGroup; ++u, left.go_on(1), b += b_unit, keep(b)) {
        for (int line = 0; in.ahead && line < kWidth * kOne; line += kLine)
          __builtin_prefetch(b + ahead + line);
        if constexpr (!kCopies) ask(soon, t.soon.step);
        step<T>(Down(), Across(), sum, left, u, b, panel + u * kPanel, b_row);
      }
      if constexpr (kCopies) panel += kGroup * kPanel;
      soon += t.soon.group_step;
    }
    for (int u = 0; u < units; ++u, left.go_on(1), b += b_unit)
      step<T>(Down(), Across(), sum, left, u, b, panel + u * kPanel, b_row);
    end(All(), sum, t);
    return soon;
  }

  static void run(const Operands& of, Outputs t) {
    const auto* sliver = static_cast<const Unit*>(of.a);
    const char* soon = soon_of(t, static_cast<const char*>(of.b));
    for (int s = 0; s < of.slivers; ++s, sliver += of.a_sliver, go_down(Across(), t)) {
      const Unit* a = sliver;
      const auto* b = static_cast<const char*>(of.b);
      Sum sum[Rows * Vectors];
      begin(All(), sum, t);
      if (s + 1 < of.slivers) expect(All(), t);
      int units = of.units;
      for (; units >= kGroup; units -= kGroup, a += Rows * kGroup, b += kGroup * kPanel) {
        PTO_UNROLL
        for (int u = 0; u < kGroup; ++u) {
          ask(soon, t.soon.step);
          step<void>(Down(), Across(), sum, Packed{a}, u, b + u * kPanel);
        }
        soon += t.soon.group_step;
      }
      for (int u = 0; u < units; ++u)
        step<void>(Down(), Across(), sum, Packed{a}, u, b + u * kPanel);
      end(All(), sum, t);
    }
  }
};

constexpr int kAbreastRows = kRows / 2;  // of which two panels' sums fit registers

// Returns how many panels pass at once: more of them for fewer rows, whose sums are fewer.
constexpr int panels_abreast(int rows) {
  const int most = rows == 1 ? 4 : rows == 2 ? 3 : 2, fit = kRows / rows;
  return most < fit ? most : fit;
}

// A few rows by some panels at once, whose units lie `panel` bytes apart: one panel alone is read
// from afar too slowly, and its sums wait for each other.
template <class Dot, int Rows, int Panels>
struct Abreast {
  using Tile = Micro<Dot, Rows, kVectors>;
  using All = typename IndicesTo<Panels>::type;
  static constexpr int kSums = Rows * kVectors;
  static constexpr int kAhead = Panels > 2 ? 1 << 10 : 4 << 10;  // bytes to ask ahead in each panel

  static void run(const InPlace& in, int64_t panel, const Outputs* t) { run(All(), in, panel, t); }

 private:
  template <int... P>
  static PTO_INLINE void run(Indices<P...>, const InPlace& in, int64_t panel, const Outputs* t) {
    typename Dot::Sum sum[Panels * kSums];
    (Tile::begin(typename Tile::All(), sum + P * kSums, t[P]), ...);
    const auto* b = static_cast<const char*>(in.of.b);
    typename Tile::Placed left(static_cast<const typename Dot::Unit*>(in.of.a), in.a_row);
    for (int u = 0; u < in.of.units; ++u, left.go_on(1), b += Tile::kPanel) {
      (ask(b + P * panel + kAhead), ...);
      (Tile::template step<void>(typename Tile::Down(), typename Tile::Across(), sum + P * kSums,
                                 left, 0, b + P * panel),
       ...);
    }
    (Tile::end(typename Tile::All(), sum + P * kSums, t[P]), ...);
  }
  static PTO_INLINE void ask(const char* unit) {
    for (int line = 0; line < Tile::kPanel; line += kLineBytes) __builtin_prefetch(unit + line);
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
  static Run get(int rows, int vectors) { return kTable.run[vectors - 1][rows - 1]; }

  static const KernelTable kTable;
};
template <class Way>
constexpr KernelTable<Way> KernelTable<Way>::kTable = of(typename IndicesTo<kVectors>::type());

template <class Dot>
struct FromPanels {
  template <int Rows, int Vectors>
  static constexpr auto kernel() {
    return &Micro<Dot, Rows, Vectors>::run;
  }
};
template <class Dot, class T>
struct FromPlaces {
  template <int Rows, int Vectors>
  static constexpr auto kernel() {
    return &Micro<Dot, Rows, Vectors>::template run_in_place<T>;
  }
};
template <class Dot>
using MicroKernel = KernelTable<FromPanels<Dot>>;
template <class Dot>
using InPlaceKernel = KernelTable<FromPlaces<Dot, void>>;
template <class Dot, class T>
using CopyingKernel = KernelTable<FromPlaces<Dot, T>>;  // b holds elements of T

}  // namespace matmul
PTO_NAMESPACE_END
