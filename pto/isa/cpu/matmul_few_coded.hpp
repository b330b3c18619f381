// SPDX-License-Identifier: Apache-2.0
// Matmul few coded: products of a few rows of floats with columns of 8 or 4 bits. Blocks of 32
// columns are turned into words in the first cache, or were packed so, and each word of a vector is
// widened in registers, once for all rows. Some more rows share small panels of floats.
//
//     const bool is_done = FewCoded<NibbleCode>(job, left, units, capacity, panel).run();
//
// Law: that of the job; few rows have the bits of many.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_coded.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// At most; so many that a block of a has room for the units of a block of b.
constexpr int kCodedRows = kVectorBytes == 64 ? 4 * kRows : 16 * kRows;
constexpr int kCodedUnits = 128, kCodedWidth = kVectors * kLane;

// A block of columns in front of the kernels below: its words, unless they are packed, and the
// floats of its groups.
struct CodedPanel {
  uint32_t words[kCodedWords * kCodedCols];
  float factors[kCodedWords / 4 * kCodedCols], zeros[kCodedWords / 4 * kCodedCols];
  float wide[kCodedUnits * kCodedWidth];  // some units of some columns
  float sums[kCodedRows * kCodedCols];    // of all rows
};

// Makes `Rows` outputs of the columns of a panel. `a` is packed: [units / 8][Rows][8].
template <class Code, int Rows>
struct FewKernel {
  // Vectors: of two rows enough to keep the units busy.
  static constexpr int kWide = kLane * 4 <= kCodedCols && Rows <= 2 ? 4 : 2;
  static constexpr int kWidth = kWide * kLane, kWordsAtOnce = kGroup / Code::kPerWord;
  using Sum = FloatDot::Sum;
  using LooseSum = typename VecOf<float, kLane>::loose;
  using All = typename IndicesTo<Rows * kWide>::type;
  using Across = typename IndicesTo<kWide>::type;
  using Down = typename IndicesTo<Rows>::type;
  using Places = typename IndicesTo<Code::kPerWord>::type;

  struct Floats {
    const float *factors, *zeros;  // of a group; zeros may be null
  };

  static PTO_INLINE Sum load(const float* p, int vector) {
    return *reinterpret_cast<const LooseSum*>(p + vector * kLane);
  }
  static PTO_INLINE Units weight(Units word, int place, const Floats& floats, int vector) {
    const Sum element = element_of<Code>(word, place);
    if constexpr (kSame<Code, ByteCode>) return bit_cast<Units>(element);
    const Sum factor = load(floats.factors, vector);
    if (!floats.zeros) return bit_cast<Units>(element * factor);
    return bit_cast<Units>(multiply_add(element, factor, load(floats.zeros, vector)));
  }

  template <int Row, int... J>
  static PTO_INLINE void row(Indices<J...>, Sum* sum, int32_t unit, const Units* right) {
    const Units left = lanes::splat<Units>(uint32_t(unit));
    ((sum[Row * kWide + J] = FloatDot::add(sum[Row * kWide + J], left, right[J])), ...);
  }
  template <int... R, int... J>
  static PTO_INLINE void unit(Indices<R...>, Indices<J...> across, Sum* sum, const int32_t* a,
                              const Units* word, int place, const Floats& floats) {
    Units right[kWide];
    ((right[J] = weight(word[J], place, floats, J)), ...);
    (row<R>(across, sum, a[R * kGroup], right), ...);
  }
  template <int... P, int... J>
  static PTO_INLINE void word(Indices<P...>, Indices<J...>, Sum* sum, const int32_t* a,
                              const uint32_t* words, const Floats& floats) {
    Units word[kWide];
    // Packed words come from far; staged ones have long been there.
    for (int line = 0; line < kWidth; line += kLineUnits)
      __builtin_prefetch(words + kCodedAhead * kCodedCols + line);
    ((word[J] = *reinterpret_cast<const LooseUnits*>(words + J * kLane)), ...);
    (unit(Down(), Across(), sum, a + P, word, P, floats), ...);
  }
  // Takes the units of the last word one by one.
  template <int... J>
  static PTO_INLINE void rest(Indices<J...>, Sum* sum, const int32_t* a, const uint32_t* words,
                              int units, const Floats& floats) {
    Units word[kWide];
    ((word[J] = *reinterpret_cast<const LooseUnits*>(words + J * kLane)), ...);
    for (int u = 0; u < units; ++u) unit(Down(), Across(), sum, a + u, word, u, floats);
  }

  // `units` in groups of `group`, whose words and floats lie kCodedCols apart.
  static void run(const int32_t* a, const uint32_t* words, Floats floats, int units, int group,
                  const float* from, int64_t from_row, float* to, int64_t to_row) {
    if (floats.zeros)
      run<true>(All(), a, words, floats, units, group, from, from_row, to, to_row);
    else
      run<false>(All(), a, words, floats, units, group, from, from_row, to, to_row);
  }

 private:
  template <bool kHasZeros, int... I>
  static PTO_INLINE void run(Indices<I...>, const int32_t* a, const uint32_t* words, Floats floats,
                             int units, int group, const float* from, int64_t from_row, float* to,
                             int64_t to_row) {
    if (!kHasZeros) floats.zeros = nullptr;
    Sum sum[Rows * kWide];
    if (from)
      ((sum[I] = load(from + I / kWide * from_row, I % kWide)), ...);
    else
      ((sum[I] = Sum{}), ...);
    for (; units > 0; units -= group) {
      const int here = smaller(units, group);
      int left = here;
      for (; left >= kGroup; left -= kGroup, a += Rows * kGroup) {
        for (int w = 0; w < kWordsAtOnce; ++w, words += kCodedCols)
          word(Places(), Across(), sum, a + w * Code::kPerWord, words, floats);
      }
      if (left >= Code::kPerWord) {
        word(Places(), Across(), sum, a, words, floats);
        left -= Code::kPerWord, a += Code::kPerWord, words += kCodedCols;
      }
      if (left > 0) rest(Across(), sum, a, words, left, floats);
      floats.factors += kCodedCols;
      if (kHasZeros) floats.zeros += kCodedCols;
    }
    ((*reinterpret_cast<LooseSum*>(to + I / kWide * to_row + I % kWide * kLane) = sum[I]), ...);
  }
};

// Products of a few rows: each word of b is read once.
template <class Code>
class FewCoded {
  static constexpr int kBlock = kCodedWords * Code::kPerWord;  // units

 public:
  // `left` packs rows of a into `units`, which holds `capacity` of them.
  FewCoded(const pto_matmul_job& job, Pack left, int32_t* units, int capacity, CodedPanel& panel)
      : job_(job),
        left_(left),
        units_(units),
        chunk_(capacity / job.rows / kBlock * kBlock),
        group_(Coded<Code>::kHasFactors ? smaller(job.b_group, kBlock) : kBlock),
        panel_(panel),
        from_(job),
        to_(job.c, job.rows, job.cols),
        start_(job.start, job.rows, job.cols) {}

  // Writes the outputs, or nothing.
  bool run() const {
    if (job_.packed || job_.bias.data || job_.depth <= 0 || job_.rows > kCodedRows || chunk_ == 0)
      return false;
    if (!to_.is_plain(job_.rows, job_.cols)) return false;
    if (job_.start.data && !start_.is_plain(job_.rows, job_.cols)) return false;
    if (job_.rows > kRows)
      run_slivers();
    else
      run_rows(typename IndicesTo<kRows>::type());
    return true;
  }

 private:
  template <int... I>
  void run_rows(Indices<I...>) const {
    ((I + 1 == job_.rows ? run_with<I + 1>() : void()), ...);
  }

  template <int Rows>
  void run_with() const {
    using Kernel = FewKernel<Code, Rows>;
    for (int first = 0; first < job_.depth; first += chunk_) {
      const int last = smaller(job_.depth, first + chunk_);
      left_(job_, units_, {0, Rows, Rows, first, last - first});
      for (int col = 0; col < job_.cols; col += kCodedCols)
        for (int k = first; k < last; k += kBlock)
          block<Kernel, Rows>(col, k, smaller(last - k, kBlock), units_ + (k - first) * Rows);
    }
  }

  template <class Kernel, int Rows>
  void block(int col, int k, int units, const int32_t* a) const {
    constexpr int kWidth = Kernel::kWidth;
    const uint32_t* const words = stage(col, k, units);
    const Place* const source = source_of(k);
    for (int j = 0; j < smaller(kCodedCols, job_.cols - col); j += kWidth) {
      const int cols = smaller(job_.cols - col - j, kWidth);
      const typename Kernel::Floats floats = {panel_.factors + j,
                                              from_.has_zero() ? panel_.zeros + j : nullptr};
      int32_t tile[Rows][kWidth];
      const auto* from = reinterpret_cast<const float*>(source ? source->at(0, col + j) : nullptr);
      auto* to = reinterpret_cast<float*>(to_.at(0, col + j));
      int64_t from_row = source ? source->rows.stride : 0, to_row = to_.rows.stride;
      if (cols < kWidth) {
        for (int r = 0; r < Rows && source; ++r) source->read(tile[r], r, col + j, cols);
        to = reinterpret_cast<float*>(tile[0]);
        if (source) from = to;
        from_row = to_row = kWidth;
      }
      Kernel::run(a, words + j, floats, units, group_, from, from_row, to, to_row);
      for (int r = 0; r < Rows && cols < kWidth; ++r) to_.write(tile[r], r, col + j, cols);
    }
  }

  const Place* source_of(int k) const { return k > 0 ? &to_ : job_.start.data ? &start_ : nullptr; }

  // Runs more rows than registers hold outputs for, in slivers.
  void run_slivers() const {
    const int slivers = quotient_up(job_.rows, kRows);
    for (int first = 0; first < job_.depth; first += chunk_) {
      const int last = smaller(job_.depth, first + chunk_);
      const int depth = quotient_up(last - first, kGroup) * kGroup;
      for (int s = 0; s < slivers; ++s) {
        const int row = share(job_.rows, s, slivers), count = rows_of_sliver(s, slivers);
        left_(job_, units_ + row * depth, {row, count, count, first, last - first});
      }
      for (int col = 0; col < job_.cols; col += kCodedCols)
        columns(col, smaller(job_.cols - col, kCodedCols), first, last, depth);
    }
  }
  int rows_of_sliver(int s, int slivers) const {
    return share(job_.rows, s + 1, slivers) - share(job_.rows, s, slivers);
  }

  void columns(int col, int cols, int first, int last, int depth) const {
    const Place* const source = source_of(first);
    auto* const sums = reinterpret_cast<int32_t*>(panel_.sums);
    for (int r = 0; r < job_.rows; ++r) {
      if (source)
        source->read(sums + r * kCodedCols, r, col, cols);
      else
        __builtin_memset(sums + r * kCodedCols, 0, sizeof(float) * kCodedCols);
    }
    for (int k = first; k < last; k += kBlock) {
      const int units = smaller(last - k, kBlock);
      const uint32_t* const words = stage(col, k, units);
      for (int j = 0; j < cols; j += kCodedWidth)
        for (int u = 0; u < units; u += kCodedUnits) {
          const int some = smaller(units - u, kCodedUnits);
          widen(words + u / Code::kPerWord * kCodedCols + j, j, u, some);
          add(j, some, units_ + int64_t(k + u - first), depth);
        }
    }
    for (int r = 0; r < job_.rows; ++r) to_.write(sums + r * kCodedCols, r, col, cols);
  }

  // Makes floats of some units of kCodedWidth columns; `unit` counts from the block's first one.
  void widen(const uint32_t* words, int j, int unit, int units) const {
    using One = FewKernel<Code, 1>;
    float* to = panel_.wide;
    for (int u = 0; u < units; u += Code::kPerWord, words += kCodedCols) {
      const int at = (unit + u) / group_ * kCodedCols + j;
      const typename One::Floats floats = {panel_.factors + at,
                                           from_.has_zero() ? panel_.zeros + at : nullptr};
      PTO_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const Units word = *reinterpret_cast<const LooseUnits*>(words + v * kLane);
        PTO_UNROLL
        for (int p = 0; p < Code::kPerWord; ++p)
          *reinterpret_cast<LooseUnits*>(to + p * kCodedWidth + v * kLane) =
              One::weight(word, p, floats, v);
      }
      to += Code::kPerWord * kCodedWidth;
    }
  }

  // Adds the products with the floats to the sums of columns j on. `a`: those of the first row.
  void add(int j, int units, const int32_t* a, int depth) const {
    const int slivers = quotient_up(job_.rows, kRows);
    const int64_t offset = a - units_;
    for (int s = 0; s < slivers; ++s) {
      const int row = share(job_.rows, s, slivers), count = rows_of_sliver(s, slivers);
      Outputs out = {};
      for (int v = 0; v < kVectors; ++v)
        out.from[v] = out.to[v] =
            reinterpret_cast<char*>(panel_.sums + row * kCodedCols + j + v * kLane);
      out.from_stride = out.to_stride = sizeof(float) * kCodedCols;
      const int32_t* const left = units_ + row * depth + offset * count;
      MicroKernel<FloatDot>::get(count, kVectors)({left, panel_.wide, units, 1, 0}, out);
    }
  }

  // Turns the words of a block of columns, unless they are packed, and widens the floats of its
  // groups. Returns the words.
  const uint32_t* stage(int col, int k, int units) const {
    const int group = group_;
    // The next block of these columns, or the first of the next ones.
    const bool is_last = k + kBlock >= job_.depth;
    const int64_t ahead = is_last ? (job_.b.col_stride * kCodedCols - k) * Code::kBits / 8
                                  : int64_t(kBlock) * Code::kBits / 8;
    for (int j = 0; j < smaller(kCodedCols, job_.cols - col); j += kGroup) {
      const int count = smaller(job_.cols - col - j, kGroup);
      uint32_t* to = panel_.words + j;
      for (int u = 0; u < units && !from_.is_packed(); u += Coded<Code>::kUnits) {
        Group v[kGroup];
        from_.words(col + j, count, k + u, ahead, v);
        PTO_UNROLL
        for (int w = 0; w < kGroup; ++w, to += kCodedCols)
          *reinterpret_cast<LooseGroup*>(to) = v[w];
      }
      if constexpr (Coded<Code>::kHasFactors) {
        using Loose = typename VecOf<float, kGroup>::loose;
        for (int u = 0, at = j; u < units; u += group, at += kCodedCols) {
          *reinterpret_cast<Loose*>(panel_.factors + at) = from_.factor(col + j, count, k + u);
          if (from_.has_zero())
            *reinterpret_cast<Loose*>(panel_.zeros + at) = from_.zero(col + j, count, k + u);
        }
      }
    }
    return from_.is_packed() ? from_.packed(col, k) : panel_.words;
  }

  const pto_matmul_job& job_;
  const Pack left_;
  int32_t* const units_;
  const int chunk_, group_;  // units that are packed at once, and of a group
  CodedPanel& panel_;
  const Coded<Code> from_;
  const Place to_, start_;
};

}  // namespace matmul
PTO_NAMESPACE_END
