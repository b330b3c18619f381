// SPDX-License-Identifier: Apache-2.0
// Matmul coded kernel: multiplies rows of floats by columns of 8 or 4 bits. Words of codes become
// units in registers, floats or pairs of bf16, once for all rows of a tile, and once for all tiles
// that read them again.
//
//     CodedKernel<FloatDot, ByteCode, 4, 2>::run<UnitsFrom::Words>(operands);  // 4 rows, 2 vectors
//
// Law: floats are a chain of multiply-adds by what the codes count as. In pairs of bf16, where
// codes are exact, bytes are a chain of pairs (k, k + 1). Each group of nibbles is such a chain,
// from zero, of pairs (k, k + 4) in runs of eight; it counts times the factor of its group, and the
// sum of the row's elements in the group counts times the zero: two multiply-adds.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_coded.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kCodedUnits = 128;                // of a block of the depth
constexpr int kCodedGroups = kCodedUnits / 16;  // of a block, at most: one has 32 elements
constexpr int kCodedFewRows = 5;                // whose tiles may have more than two vectors

// Returns the bf16 of two elements of each word: the first one in the low half.
template <class Code>
PTO_INLINE Units pair_of(Units words, int place) {
#if defined(PTO_TARGET_AVX512)
  if constexpr (kSame<Code, NibbleCode>) {
    // bf16 of 0 to 7 and -8 to -1, twice: an instruction takes five bits of each half.
    constexpr uint32_t kNumbers[] = {0x3f800000, 0x40404000, 0x40a04080, 0x40e040c0,
                                     0xc0e0c100, 0xc0a0c0c0, 0xc040c080, 0xbf80c000};
    const Units table = {kNumbers[0], kNumbers[1], kNumbers[2], kNumbers[3],
                         kNumbers[4], kNumbers[5], kNumbers[6], kNumbers[7],
                         kNumbers[0], kNumbers[1], kNumbers[2], kNumbers[3],
                         kNumbers[4], kNumbers[5], kNumbers[6], kNumbers[7]};
    Units pair;
    asm("vpermw %2, %1, %0" : "=v"(pair) : "v"(words >> (4 * place)), "v"(table));
    return pair;
  }
#endif
  constexpr bool kBeside = kSame<Code, ByteCode>;
  const auto low = element_of<Code>(words, kBeside ? 2 * place : place);
  const auto high = element_of<Code>(words, kBeside ? 2 * place + 1 : place + 4);
  return bit_cast<Units>(low) >> 16 | bit_cast<Units>(high);
}

// Where a tile finds units; those that it makes of words it may leave in a panel.
enum class UnitsFrom { Words, WordsToPanel, Panel };

struct CodedOperands {
  const int32_t* a;              // [units / 8][rows][8]
  const uint32_t* words;         // [words][kCodedCols], of some panels
  int64_t words_panel;           // from a panel to the next
  uint32_t* panel;               // [units][columns of the tile]
  int units, group;              // bytes, all of which are a group, have no factors
  const float *factors, *zeros;  // [panels][kCodedGroups][kCodedCols]; zeros may be null
  const float* row_sums;         // of a, in each group
  int64_t row_sums_row;
  float* sums;
  int64_t sums_row;
};

// Vectors of a tile: few rows take more, which keep the units busy, from some streams of words.
// Pairs of bytes take more registers than floats.
template <class Dot, class Code, int Rows>
constexpr int coded_wide() {
  if (kVectorBytes == 32) return Rows > 2 ? 2 : 4;
  if (kVectorBytes < 32 || Rows > kCodedFewRows) return 2;
  const bool fits = Dot::kPerUnit == 1 || kSame<Code, NibbleCode>;
  return Rows == 1 && fits ? 8 : 4;
}

template <class Dot, class Code, int Rows, int Wide>
struct CodedKernel {
  using Sum = typename Dot::Sum;
  using LooseSum = typename VecOf<float, kLane>::loose;
  static constexpr int kUnits = Code::kPerWord / Dot::kPerUnit;  // of a word
  static constexpr bool kHasFactors = kSame<Code, NibbleCode>;
  static constexpr bool kScalesUnits = kHasFactors && Dot::kPerUnit == 1;
  static constexpr bool kScalesSums = kHasFactors && !kScalesUnits;
  static constexpr int kWidth = Wide * kLane;
  using All = typename IndicesTo<Rows * Wide>::type;
  using Across = typename IndicesTo<Wide>::type;
  using Down = typename IndicesTo<Rows>::type;
  using Places = typename IndicesTo<kUnits>::type;

  template <UnitsFrom From>
  static void run(const CodedOperands& of) {
    if (kHasFactors && of.zeros)
      run<From, true>(All(), of);
    else
      run<From, false>(All(), of);
  }

 private:
  // A word of each vector, and the floats of its group.
  struct Words {
    Units at[Wide];
    const float *factors, *zeros;
  };

  // The panel of a vector, and its place there.
  static constexpr int panel_of(int vector) { return vector * kLane / kCodedCols; }
  static constexpr int place_of(int vector) { return vector * kLane % kCodedCols; }
  template <int Vector>
  static PTO_INLINE Sum float_of(const float* p) {
    constexpr int kAt = panel_of(Vector) * kCodedGroups * kCodedCols + place_of(Vector);
    return sum_at(p + kAt);
  }
  static PTO_INLINE Sum sum_at(const float* p) { return *reinterpret_cast<const LooseSum*>(p); }

  template <bool HasZeros, int J>
  static PTO_INLINE Units unit_of(const Words& words, int place) {
    if constexpr (Dot::kPerUnit == 2) return pair_of<Code>(words.at[J], place);
    Sum one = element_of<Code>(words.at[J], place);
    if constexpr (kScalesUnits && HasZeros)
      one = multiply_add(one, float_of<J>(words.factors), float_of<J>(words.zeros));
    else if constexpr (kScalesUnits)
      one = one * float_of<J>(words.factors);
    return bit_cast<Units>(one);
  }

  template <int Row, int... J>
  static PTO_INLINE void row(Indices<J...>, Sum* sum, int32_t unit, const Units* right) {
    Units left = lanes::splat<Units>(uint32_t(unit));
#if defined(PTO_TARGET_AVX512)
    asm("" : "+v"(left));  // one broadcast, not one in each instruction
#endif
    ((sum[Row * Wide + J] = Dot::add(sum[Row * Wide + J], left, right[J])), ...);
  }
  template <UnitsFrom From, bool HasZeros, int... R, int... J>
  static PTO_INLINE void unit(Indices<R...>, Indices<J...> across, Sum* sum, const int32_t* a,
                              const Words& words, int place, uint32_t* panel) {
    Units right[Wide];
    if constexpr (From == UnitsFrom::Panel)
      ((right[J] = *reinterpret_cast<const LooseUnits*>(panel + J * kLane)), ...);
    else
      ((right[J] = unit_of<HasZeros, J>(words, place)), ...);
    if constexpr (From == UnitsFrom::WordsToPanel)
      ((*reinterpret_cast<LooseUnits*>(panel + J * kLane) = right[J]), ...);
    (row<R>(across, sum, a[R * kGroup], right), ...);
  }
#if defined(PTO_TARGET_AVX512)
  static PTO_INLINE void keep_in_register(Units& units) { asm("" : "+v"(units)); }
#endif
  static PTO_INLINE void ask(const uint32_t* words) {
    __builtin_prefetch(words + Code::kAhead * kCodedCols);
    if constexpr (Code::kAsksAgain) __builtin_prefetch(words + Code::kAhead / 2 * kCodedCols);
  }
  template <int Vector>
  static PTO_INLINE void load(Words& words, const uint32_t* from) {
    if constexpr (place_of(Vector) % kLineUnits == 0) ask(from);
    words.at[Vector] = *reinterpret_cast<const LooseUnits*>(from);
  }
  template <UnitsFrom From, int... J>
  static PTO_INLINE void load(Indices<J...>, Words& words, const CodedOperands& of, int64_t at) {
    if constexpr (From != UnitsFrom::Panel) {
      (load<J>(words, of.words + panel_of(J) * of.words_panel + at + place_of(J)), ...);
#if defined(PTO_TARGET_AVX512)
      // One load, not one for each element of a word.
      if constexpr (!kHasFactors) (keep_in_register(words.at[J]), ...);
#endif
    }
  }

  // Goes on by words of codes: what is read next.
  struct Next {
    const int32_t* a;
    int64_t at;  // of the words
    uint32_t* panel;
  };
  template <UnitsFrom From, bool HasZeros, int... P>
  static PTO_INLINE void word(Indices<P...>, Sum* sum, const CodedOperands& of, Words words,
                              const int32_t* a, Next& next) {
    load<From>(Across(), words, of, next.at);
    (unit<From, HasZeros>(Down(), Across(), sum, a + P, words, P, next.panel + P * kWidth), ...);
    next.at += kCodedCols, next.panel += kUnits * kWidth;
  }

  template <UnitsFrom From, bool HasZeros, int... I>
  static PTO_INLINE void run(Indices<I...>, const CodedOperands& of) {
    Next next = {of.a, 0, of.panel};
    Sum sum[Rows * Wide];
    float* const to = of.sums;
    if constexpr (!kScalesSums)
      ((sum[I] = sum_at(to + I / Wide * of.sums_row + I % Wide * kLane)), ...);
    for (int first = 0, group = 0; first < of.units; first += of.group, ++group) {
      if constexpr (kScalesSums) ((sum[I] = Sum{}), ...);
      const int64_t floats = int64_t{group} * kCodedCols;
      const Words words = {{}, of.factors + floats, of.zeros + (HasZeros ? floats : 0)};
      add<From, HasZeros>(sum, of, words, smaller(of.units - first, of.group), next);
      if constexpr (kScalesSums) (add_group<HasZeros, I>(sum[I], of, group), ...);
    }
    if constexpr (!kScalesSums)
      ((*reinterpret_cast<LooseSum*>(to + I / Wide * of.sums_row + I % Wide * kLane) = sum[I]),
       ...);
  }
  // Adds the products of some units.
  template <UnitsFrom From, bool HasZeros>
  static PTO_INLINE void add(Sum* sum, const CodedOperands& of, Words words, int units,
                             Next& next) {
    for (; units >= kGroup; units -= kGroup, next.a += Rows * kGroup) {
      PTO_UNROLL
      for (int u = 0; u < kGroup; u += kUnits)
        word<From, HasZeros>(Places(), sum, of, words, next.a + u, next);
    }
    for (int u = 0; u < units; u += kUnits) {  // those of the last word one by one
      load<From>(Across(), words, of, next.at);
      for (int p = 0; p < smaller(units - u, kUnits); ++p)
        unit<From, HasZeros>(Down(), Across(), sum, next.a + u + p, words, p,
                             next.panel + p * kWidth);
      next.at += kCodedCols, next.panel += kUnits * kWidth;
    }
  }
  template <bool HasZeros, int I>
  static PTO_INLINE void add_group(Sum sum, const CodedOperands& of, int group) {
    constexpr int kRow = I / Wide, kVector = I % Wide;
    float* const to = of.sums + kRow * of.sums_row + kVector * kLane;
    const int64_t at = int64_t{group} * kCodedCols;
    Sum all = multiply_add(sum, float_of<kVector>(of.factors + at), sum_at(to));
    if constexpr (HasZeros) {
      const Sum row = lanes::splat<Sum>(of.row_sums[kRow * of.row_sums_row + group]);
      all = multiply_add(row, float_of<kVector>(of.zeros + at), all);
    }
    *reinterpret_cast<LooseSum*>(to) = all;
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
