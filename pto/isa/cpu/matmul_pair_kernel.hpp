// SPDX-License-Identifier: Apache-2.0
// Matmul pair kernel: multiplies rows of bf16 by columns of 8 or 4 bits in pairs, as AVX512_BF16
// does. Codes are exact in bf16: words of them become pairs in registers, once for all rows of a
// tile, and once for all tiles that read them again.
//
//     PairKernel<HardwarePairs, ByteCode, 12, 2>::run<PairsFrom::Words>(operands);
//
// Law: bytes are a chain of pairs (k, k + 1). Of nibbles each group is such a chain, from zero, of
// pairs (k, k + 4) in runs of eight; it counts times the factor of its group, and the sum of the
// row's elements in the group counts times the zero: two multiply-adds.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_coded.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kPairUnits = 128;  // of a block: 256 of the depth

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

// Where a tile finds pairs; those that it makes of words it may leave in a panel.
enum class PairsFrom { Words, WordsToPanel, Panel };

struct PairOperands {
  const int32_t* a;              // [units / 8][rows][8]
  const uint32_t* words;         // [units / kPairs][kCodedCols], of some panels
  int64_t words_panel;           // from a panel to the next
  uint32_t* panel;               // [units][columns of the tile]
  int units, group;              // of nibbles; of bytes all are a group
  const float *factors, *zeros;  // [panels][kPairGroups][kCodedCols]; zeros may be null
  const float* row_sums;         // of a, in each group
  int64_t row_sums_row;
  float* sums;
  int64_t sums_row;
};

constexpr int kPairGroups = kPairUnits * 2 / 32;  // of a block, at most

// Vectors of a tile: few rows take more, which keep the units busy, from some streams of words.
template <int Rows>
constexpr int kPairsWide = kVectorBytes<64 || Rows> 3 ? 2
                           : Rows == 1                ? 8
                                                      : 4;

template <class Pairs, class Code, int Rows, int Wide>
struct PairKernel {
  using Dot = Bf16Dot<Pairs>;
  using Sum = typename Dot::Sum;
  using LooseSum = typename VecOf<float, kLane>::loose;
  static constexpr int kPairs = Code::kPerWord / 2;  // of a word
  static constexpr bool kInGroups = kSame<Code, NibbleCode>;
  static constexpr int kWidth = Wide * kLane;
  static constexpr int kPanels = kWidth > kCodedCols ? kWidth / kCodedCols : 1;
  using All = typename IndicesTo<Rows * Wide>::type;
  using Across = typename IndicesTo<Wide>::type;
  using Down = typename IndicesTo<Rows>::type;
  using Places = typename IndicesTo<kPairs>::type;

  // The panel of a vector, and its place there.
  static constexpr int panel_of(int vector) { return vector * kLane / kCodedCols; }
  static constexpr int place_of(int vector) { return vector * kLane % kCodedCols; }

  template <int Row, int... J>
  static PTO_INLINE void row(Indices<J...>, Sum* sum, int32_t unit, const Units* right) {
    Units left = lanes::splat<Units>(uint32_t(unit));
#if defined(PTO_TARGET_AVX512)
    asm("" : "+v"(left));  // one broadcast, not one in each instruction
#endif
    ((sum[Row * Wide + J] = Dot::add(sum[Row * Wide + J], left, right[J])), ...);
  }
  template <PairsFrom From, int... R, int... J>
  static PTO_INLINE void unit(Indices<R...>, Indices<J...> across, Sum* sum, const int32_t* a,
                              const Units* word, int place, uint32_t* panel) {
    Units right[Wide];
    if constexpr (From == PairsFrom::Panel)
      ((right[J] = *reinterpret_cast<const LooseUnits*>(panel + J * kLane)), ...);
    else
      ((right[J] = pair_of<Code>(word[J], place)), ...);
    if constexpr (From == PairsFrom::WordsToPanel)
      ((*reinterpret_cast<LooseUnits*>(panel + J * kLane) = right[J]), ...);
    (row<R>(across, sum, a[R * kGroup], right), ...);
  }
  template <PairsFrom From, int... J>
  static PTO_INLINE void load(Indices<J...>, Units* word, const PairOperands& of, int64_t at) {
    if constexpr (From != PairsFrom::Panel) {
      for (int line = 0; line < smaller(kWidth, kCodedCols); line += kLineUnits)
        for (int p = 0; p < kPanels; ++p)
          __builtin_prefetch(of.words + p * of.words_panel + at + kCodedAhead * kCodedCols + line);
      ((word[J] = *reinterpret_cast<const LooseUnits*>(of.words + panel_of(J) * of.words_panel +
                                                       at + place_of(J))),
       ...);
    }
  }
  template <PairsFrom From, int... P>
  static PTO_INLINE void word(Indices<P...>, Sum* sum, const int32_t* a, const PairOperands& of,
                              int64_t at, uint32_t* panel) {
    Units word[Wide] = {};  // unread where a panel has the pairs
    load<From>(Across(), word, of, at);
    (unit<From>(Down(), Across(), sum, a + P, word, P, panel + P * kWidth), ...);
  }

  template <PairsFrom From>
  static void run(const PairOperands& of) {
    if (of.zeros)
      run<From, true>(All(), of);
    else
      run<From, false>(All(), of);
  }

 private:
  static PTO_INLINE Sum sum_at(const float* p) { return *reinterpret_cast<const LooseSum*>(p); }

  template <PairsFrom From, bool HasZeros, int... I>
  static PTO_INLINE void run(Indices<I...>, const PairOperands& of) {
    const int32_t* a = of.a;
    uint32_t* panel = of.panel;
    int64_t at = 0;
    Sum sum[Rows * Wide];
    for (int first = 0, group = 0; first < of.units; first += of.group, ++group) {
      float* const to = of.sums;
      if constexpr (kInGroups)
        ((sum[I] = Sum{}), ...);
      else
        ((sum[I] = sum_at(to + I / Wide * of.sums_row + I % Wide * kLane)), ...);
      int left = smaller(of.units - first, of.group);
      for (; left >= kGroup; left -= kGroup, a += Rows * kGroup) {
        PTO_UNROLL
        for (int u = 0; u < kGroup; u += kPairs, at += kCodedCols, panel += kPairs * kWidth)
          word<From>(Places(), sum, a + u, of, at, panel);
      }
      for (int u = 0; u < left; u += kPairs, at += kCodedCols, panel += kPairs * kWidth)
        rest<From>(sum, a + u, of, at, panel, smaller(left - u, kPairs));
      if constexpr (kInGroups) {
        (add_group<HasZeros, I>(sum[I], of, group), ...);
      } else {
        ((*reinterpret_cast<LooseSum*>(to + I / Wide * of.sums_row + I % Wide * kLane) = sum[I]),
         ...);
      }
    }
  }
  // Takes the units of the last word one by one.
  template <PairsFrom From>
  static PTO_INLINE void rest(Sum* sum, const int32_t* a, const PairOperands& of, int64_t at,
                              uint32_t* panel, int units) {
    Units word[Wide] = {};
    load<From>(Across(), word, of, at);
    for (int u = 0; u < units; ++u)
      unit<From>(Down(), Across(), sum, a + u, word, u, panel + u * kWidth);
  }
  template <bool HasZeros, int I>
  static PTO_INLINE void add_group(Sum sum, const PairOperands& of, int group) {
    constexpr int kRow = I / Wide, kVector = I % Wide;
    constexpr int kAt = panel_of(kVector) * kPairGroups * kCodedCols + place_of(kVector);
    float* const to = of.sums + kRow * of.sums_row + kVector * kLane;
    const int64_t at = int64_t{group} * kCodedCols + kAt;
    Sum all = multiply_add(sum, sum_at(of.factors + at), sum_at(to));
    if constexpr (HasZeros) {
      const Sum row = lanes::splat<Sum>(of.row_sums[kRow * of.row_sums_row + group]);
      all = multiply_add(row, sum_at(of.zeros + at), all);
    }
    *reinterpret_cast<LooseSum*>(to) = all;
  }
};

}  // namespace matmul
PTO_NAMESPACE_END
