// SPDX-License-Identifier: Apache-2.0
// Matmul coded loops: products of floats with columns of 8 or 4 bits. Blocks of 32 columns, packed
// or turned into words in the first cache, become units while the first rows are multiplied by
// them; the other rows of a block read these.
//
//     CodedProduct<FloatDot, NibbleCode>(job, false, pack_left<float>, units, panel).run();
//
// Law: that of matmul_coded_kernel.hpp, however the work is cut.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_coded_kernel.hpp"
#include "pto/isa/cpu/matmul_loops.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kCodedPanels = 4;  // that a tile of few rows reads beside each other

// The memory of a thread for a block of columns.
struct CodedPanel {
  alignas(kLineBytes) float sums[kBlockRows * kCodedCols];
  alignas(kLineBytes) uint32_t units[kCodedUnits * kCodedCols];
  uint32_t words[kCodedPanels * kCodedWords * kCodedCols];
  float factors[kCodedPanels * kCodedGroups * kCodedCols];
  float zeros[kCodedPanels * kCodedGroups * kCodedCols];
  float row_sums[kBlockRows * kDepth / 16];  // a group has 16 units at least
};

template <class Dot, class Code>
class CodedProduct {
  static constexpr int kPerUnit = Dot::kPerUnit, kBlock = kCodedUnits * kPerUnit;  // of the depth
  static constexpr bool kHasFactors = kSame<Code, NibbleCode>;
  static constexpr bool kIsPaired = kHasFactors && kPerUnit == 2;
  static constexpr int kCapacity = kBlockRows * kDepth;  // units of a that are packed at once

 public:
  // `left` packs rows of a into `units`, which has room for a block of them, as BlockPanels has.
  // `quads`: the CPU multiplies quads of bytes.
  CodedProduct(const pto_matmul_job& job, bool quads, Pack left, int32_t* units, CodedPanel& panel)
      : job_(job),
        quads_(quads),
        left_(left),
        units_(units),
        panel_(panel),
        from_(job),
        to_(job.c, job.rows, job.cols),
        start_(job.start, job.rows, job.cols),
        group_(kHasFactors ? job.b_group / kPerUnit : kCodedUnits) {}

  void run() {
    const int blocks = quotient_up(job_.rows, kBlockRows);
    for (int block = 0; block < blocks; ++block) {
      row_ = share(job_.rows, block, blocks);
      rows_ = share(job_.rows, block + 1, blocks) - row_;
      const int chunk = kCapacity / rows_ / kCodedUnits * kBlock;
      int k = 0;
      do {
        chunk_ = {k, smaller(job_.depth - k, chunk)};
        pack_left();
        for (int col = 0; col < job_.cols;) col += columns(col);
        k += chunk;
      } while (k < job_.depth);
    }
  }

 private:
  // Elements of the depth.
  struct Depth {
    int k, count;
    int units() const { return quotient_up(count, kPerUnit); }
  };
  int slivers() const { return quotient_up(rows_, kRows); }
  SliverRows sliver(int number) const {  // from row_ on
    const int begin = share(rows_, number, slivers());
    return {begin, share(rows_, number + 1, slivers()) - begin};
  }
  int32_t* left_of(const SliverRows& rows) const {
    return units_ + int64_t{rows.begin} * (quotient_up(chunk_.units(), kGroup) * kGroup);
  }
  int groups() const { return quotient_up(chunk_.units(), group_); }
  // True where a kernel needs neither units nor floats of a block: it goes through the whole depth.
  bool reads_words_once() const { return !kHasFactors && from_.is_packed() && slivers() == 1; }

  void pack_left() const {
    for (int s = 0; s < slivers(); ++s) {
      const SliverRows r = sliver(s);
      int32_t* const to = left_of(r);
      left_(job_, to, {row_ + r.begin, r.count, r.count, chunk_.k, chunk_.units()});
      if constexpr (kIsPaired) {
        if (from_.has_zero()) sum_groups(r, to);
        for (int u = 0; u < chunk_.units() * r.count; u += kGroup) pair_up(to + u);
      }
    }
  }
  // Pairs elements k and k + 4 of runs of eight.
  static void pair_up(int32_t* units) {
    Vec<uint16_t, 2 * kGroup> v;
    __builtin_memcpy(&v, units, sizeof v);
    v = __builtin_shufflevector(v, v, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    __builtin_memcpy(units, &v, sizeof v);
  }
  // Sums up each group of rows: elements k + 2 i of runs of 16, the others, then these sums.
  void sum_groups(const SliverRows& rows, const int32_t* units) const {
    using Part = Vec<uint32_t, kGroup>;
    using Sums = Vec<float, kGroup>;
    for (int r = 0; r < rows.count; ++r)
      for (int g = 0; g < groups(); ++g) {
        Sums low = {}, high = {};
        for (int u = g * group_; u < (g + 1) * group_; u += kGroup) {
          Part v;
          __builtin_memcpy(&v, units + u * rows.count + r * kGroup, sizeof v);
          low += bit_cast<Sums>(v << 16);
          high += bit_cast<Sums>(v & 0xffff0000u);
        }
        low += high;
        for (int half = kGroup / 2; half > 0; half /= 2)
          for (int i = 0; i < half; ++i) low[i] += low[i + half];
        panel_.row_sums[(rows.begin + r) * groups() + g] = low[0];
      }
  }

  // Makes the outputs of some columns from this one on; returns how many.
  int columns(int col) { return columns(typename IndicesTo<kCodedFewRows>::type(), col); }
  template <int... R>
  int columns(Indices<R...>, int col) {
    const int left = quotient_up(job_.cols - col, kCodedCols);
    int made = 0;
    static_cast<void>(
        ((R + 1 == rows_ && left >= kPanels<R + 1> && (made = columns<kWide<R + 1>>(col))) || ...));
    return made > 0 ? made : columns<kVectors>(col);
  }
  template <int Rows>
  static constexpr int kWide = coded_wide<Dot, Code, Rows>();
  template <int Rows>
  static constexpr int kPanels = (kWide<Rows> * kLane + kCodedCols - 1) / kCodedCols;
  // Wide: vectors of a tile.
  template <int Wide>
  int columns(int col) {
    constexpr int kTile = Wide * kLane, kWidth = kTile > kCodedCols ? kTile : kCodedCols;
    const int count = smaller(job_.cols - col, kWidth);
    read(col, count, kWidth);
    const int most = reads_words_once() ? chunk_.count : kBlock;
    for (int k = chunk_.k; k < chunk_.k + chunk_.count; k += most) {
      const Depth block = {k, smaller(chunk_.k + chunk_.count - k, most)};
      stage(col, kWidth / kCodedCols, block);
      if constexpr (kHasFactors) ask_groups(col, kWidth, block);
      for (int j = 0; j < kWidth; j += kTile) multiply<Wide>(col, j, block, kWidth);
    }
    write(col, count, kWidth);
    return kWidth;
  }

  // Begins with what lies in c or start, or zeros.
  void read(int col, int count, int width) const {
    const Place* const source = chunk_.k > 0 ? &to_ : job_.start.data ? &start_ : nullptr;
    auto* sums = reinterpret_cast<int32_t*>(panel_.sums);
    for (int r = 0; r < rows_; ++r, sums += width) {
      __builtin_memset(sums, 0, sizeof(float) * size_t(width));
      if (source) source->read(sums, row_ + r, col, count);
    }
  }
  void write(int col, int count, int width) const {
    const Axis cols = cols_of(job_.bias);
    const auto* const bias = static_cast<const float*>(job_.bias.data);
    const bool is_last = chunk_.k + chunk_.count >= job_.depth;
    float* sums = panel_.sums;
    for (int r = 0; r < rows_; ++r, sums += width) {
      for (int j = 0; bias && is_last && j < count; ++j) sums[j] += bias[cols.at(col + j)];
      to_.write(reinterpret_cast<const int32_t*>(sums), row_ + r, col, count);
    }
  }

  // Finds the words of a block of some panels, and the floats of its groups.
  void stage(int col, int panels, const Depth& block) {
    const int64_t ahead = int64_t{kBlock} * Code::kBits / 8;
    for (int p = 0; p < panels; ++p, col += kCodedCols) {
      uint32_t* const words = panel_.words + p * kCodedWords * kCodedCols;
      for (int j = 0; j < smaller(kCodedCols, job_.cols - col); j += kGroup) {
        const int count = smaller(job_.cols - col - j, kGroup);
        if (!from_.is_packed()) turn_words(words + j, col + j, count, block, ahead);
        if constexpr (kHasFactors) take_groups(p, col, j, count, block);
      }
    }
  }
  void turn_words(uint32_t* to, int col, int count, const Depth& block, int64_t ahead) const {
    for (int u = 0; u < block.count; u += Coded<Code>::kUnits) {
      Group v[kGroup];
      from_.words(col, count, block.k + u, ahead, v);
      PTO_UNROLL
      for (int w = 0; w < kGroup; ++w, to += kCodedCols) *reinterpret_cast<LooseGroup*>(to) = v[w];
    }
  }
  // Asks for the floats of the block that comes next, below this one or in the next columns: their
  // rows lie too far apart for a CPU to read ahead by itself. Inline: compilers leave out calls of
  // functions that only prefetch.
  PTO_INLINE void ask_groups(int col, int width, const Depth& block) const {
    int k = block.k + kBlock;
    if (k >= chunk_.k + chunk_.count) k = chunk_.k, col += width;
    const int count = smaller(width, job_.cols - col), end = smaller(k + kBlock, job_.depth);
    for (; count > 0 && k < end; k += group_ * kPerUnit) from_.ask(col, count, k);
  }
  void take_groups(int panel, int col, int j, int count, const Depth& block) const {
    using Loose = typename VecOf<float, kGroup>::loose;
    int64_t at = panel * kCodedGroups * kCodedCols + j;
    for (int u = 0; u < block.count; u += group_ * kPerUnit, at += kCodedCols) {
      *reinterpret_cast<Loose*>(panel_.factors + at) =
          counted(from_.factor(col + j, count, block.k + u));
      if (from_.has_zero())
        *reinterpret_cast<Loose*>(panel_.zeros + at) =
            counted(from_.zero(col + j, count, block.k + u));
    }
  }
  // In pairs a factor counts for the sum of a group. An infinite one then counts as NaN: numbers of
  // both signs, or 0, make NaN of it.
  template <class Floats>
  static Floats counted(Floats v) {
    return kIsPaired ? v + (v - v) : v;
  }

  // Adds the products with a block, of columns `j` on, to the sums.
  template <int Wide>
  void multiply(int col, int j, const Depth& block, int width) const {
    const int unit = (block.k - chunk_.k) / kPerUnit, group = unit / group_;
    CodedOperands of = {};
    of.words = panel_.words + j;
    of.words_panel = int64_t{kCodedWords} * kCodedCols;
    if (from_.is_packed()) {
      of.words = from_.packed(col, block.k) + j;
      of.words_panel = from_.packed(col + kCodedCols, block.k) - of.words + j;
    }
    of.panel = panel_.units;
    of.units = block.units(), of.group = kHasFactors ? group_ : of.units;
    of.factors = panel_.factors + j;
    of.zeros = from_.has_zero() ? panel_.zeros + j : nullptr;
    of.row_sums_row = groups(), of.sums_row = width;
    const int slivers = this->slivers();
    for (int s = 0; s < slivers; ++s) {
      const SliverRows r = sliver(s);
      of.a = left_of(r) + int64_t{unit} * r.count;
      of.row_sums = panel_.row_sums + r.begin * groups() + group;
      of.sums = panel_.sums + r.begin * width + j;
      run_rows<Wide>(typename IndicesTo<kRows>::type(), r.count, of,
                     slivers == 1 ? UnitsFrom::Words
                     : s == 0     ? UnitsFrom::WordsToPanel
                                  : UnitsFrom::Panel);
    }
  }
  template <int Wide, int... R>
  void run_rows(Indices<R...>, int rows, const CodedOperands& of, UnitsFrom from) const {
    ((R + 1 == rows ? run_kernel<R + 1, Wide>(of, from) : void()), ...);
  }
  template <int Rows, int Wide>
  void run_kernel(const CodedOperands& of, UnitsFrom from) const {
    if constexpr (Wide == kVectors || Wide == kWide<Rows>) {
      using Kernel = CodedKernel<Dot, Code, Rows, Wide>;
      if constexpr (Wide == kVectors && 2 * Rows >= kRows) {  // slivers of more rows than one has
        if (from == UnitsFrom::WordsToPanel)
          return Kernel::template run<UnitsFrom::WordsToPanel>(of);
        if (from == UnitsFrom::Panel) return Kernel::template run<UnitsFrom::Panel>(of);
      }
#if defined(PTO_TARGET_AVX512)
      if constexpr (kSame<Dot, FloatDot> && kSame<Code, ByteCode> && Rows == 1 && Wide == kWide<1>)
        if (quads_)
          return CodedKernel<Dot, QuadByteCode, 1, Wide>::template run<UnitsFrom::Words>(of);
#endif
      Kernel::template run<UnitsFrom::Words>(of);
    }
  }

  const pto_matmul_job& job_;
  const bool quads_;
  const Pack left_;
  int32_t* const units_;
  CodedPanel& panel_;
  const Coded<Code> from_;
  const Place to_, start_;
  const int group_;  // units
  int row_ = 0, rows_ = 0;
  Depth chunk_ = {};
};

}  // namespace matmul
PTO_NAMESPACE_END
