// SPDX-License-Identifier: Apache-2.0
// Matmul stream packed: products of a few rows, whose time is that of reading b once, by a b of
// bytes or bf16. Rows of b pass a few at a time, in long runs, which a CPU prefetches; runs of them
// become panels in the first cache, beside sums that stay in the second one.
//
//     const bool is_done = PackedStream<PairDot<int8_t>, int8_t>(job, pack_left).run();
//
// It is false for sizes or layouts that are not for it.
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack_bytes.hpp"
#include "pto/isa/cpu/matmul_place.hpp"
#include "pto/isa/cpu/matmul_stream.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// T: the type of b's elements, of which two or four below each other make a unit. Quads multiply
// bytes without a sign by signed ones: then b gets 128 more, which the sums lack at first.
template <class Dot, class T>
class PackedStream {
  static constexpr int kDepth = 32;  // rows of b that pass at once
  static constexpr int kUnits = kDepth / Dot::kPerUnit;
  static constexpr int kPanelCols = kVectors * kLane;
  static constexpr int64_t kUnitBytes = int64_t{kPanelCols} * Dot::kRightBytes;
  static constexpr int64_t kPanelBytes = kUnits * kUnitBytes;
  static constexpr int kRun = 4 * kLineBytes;  // bytes of a row of b that are packed at once
  static constexpr int kAbreast = kRun / int(sizeof(T)) / kPanelCols;  // panels of a run
  static constexpr int kExcess = Dot::kPerUnit == 4 ? 128 : 0;
  static constexpr int64_t kLeastRow = 2 << 10, kLeast = 512 << 10;  // bytes of b

 public:
  PackedStream(const pto_matmul_job& job, Pack left)
      : job_(job),
        left_(left),
        to_(job.c, job.rows, job.cols),
        is_narrow_(job.c.type == PTO_MATMUL_BF16) {}

  // Writes the outputs, or nothing.
  bool run() {
    if (job_.rows > kStreamRows || job_.packed || job_.packs || job_.bias.data) return false;
    const int64_t row = job_.cols * int64_t(sizeof(T));
    if (row < kLeastRow || job_.depth * row < kLeast) return false;
    if (job_.start.data || !fits_outputs()) return false;
    if (!has_rows(job_.b, job_.b_scale, job_.depth, job_.cols)) return false;
    if (kExcess > 0) {
      if (job_.a.type != PTO_MATMUL_I8 || !has_rows(job_.a, job_.a_scale, job_.rows, job_.depth))
        return false;
      take_excess();
    }
    const int panels = job_.cols / kPanelCols, most = kStreamUnits / kPanelCols / job_.rows;
    for (int first = 0; first < panels; first += most) {
      const Range block = {first, smaller(panels, first + most)};
      for (int k = 0; k < job_.depth; k += kDepth) pass(block, k);
    }
    if (const int done = panels * kPanelCols; done < job_.cols) rest(done);
    return true;
  }

 private:
  // Panels from the first one to before the last one.
  struct Range {
    int first, last;
    int count() const { return last - first; }
  };
  struct Rows {
    int begin, count;
  };

  bool fits_outputs() const {
    if (!to_.is_plain(job_.rows, job_.cols)) return false;
    if (is_narrow_) return kReadsRows<Dot> && job_.cols % kPanelCols == 0;
    return job_.c.type == PTO_MATMUL_F32 || job_.c.type == PTO_MATMUL_I32;
  }
  int slivers() const { return quotient_up(job_.rows, kRows); }
  Rows rows(int sliver) const {
    const int begin = share(job_.rows, sliver, slivers());
    return {begin, share(job_.rows, sliver + 1, slivers()) - begin};
  }

  // Begins the sums of each row with what the excess of b adds to them.
  void take_excess() {
    for (int r = 0; r < job_.rows; ++r) {
      const auto* const row = static_cast<const int8_t*>(job_.a.data) + r * job_.a.row_stride;
      int32_t sum = 0;
      for (int k = 0; k < job_.depth; ++k) sum += row[k];
      for (int j = 0; j < kPanelCols; ++j) begin_[r * kPanelCols + j] = -kExcess * sum;
    }
  }

  // Packs the units of a, some rows of b deep; returns how many there are.
  int pack_left(int k) {
    const int units = smaller(kUnits, quotient_up(job_.depth - k, Dot::kPerUnit));
    for (int s = 0; s < slivers(); ++s) {
      const Rows r = rows(s);
      left_(job_, a_ + r.begin * kUnits, {r.begin, r.count, r.count, k, units});
    }
    return units;
  }

  // Adds the products of some rows of b.
  void pass(const Range& block, int k) {
    const int units = pack_left(k);
    for (int first = block.first; first < block.last; first += kAbreast) {
      const Range panels = {first, smaller(block.last, first + kAbreast)};
      pack(panels, k, units);
      multiply(block, panels, k, units);
    }
  }

  // Packs runs of rows, as many at a time as a unit has: rows may lie so far apart that few of
  // their lines stay in the first cache.
  void pack(const Range& panels, int k, int units) {
    const int64_t row = job_.b.row_stride;
    const T* from = static_cast<const T*>(job_.b.data) + k * row + panels.first * kPanelCols;
    for (int u = 0; u < units; ++u, from += Dot::kPerUnit * row) {
      const int rows = job_.depth - k - u * Dot::kPerUnit;
      char* to = b_ + u * kUnitBytes;
      for (int p = 0; p < panels.count(); ++p, to += kPanelBytes)
        pack_unit(to, from + p * kPanelCols, row, rows);
    }
  }
  // Packs the units of a panel from rows below each other, zeros below the last one.
  static PTO_INLINE void pack_unit(char* to, const T* from, int64_t row, int rows) {
    using Row = Vec<T, kPanelCols>;
    constexpr int N = Dot::kPerUnit;
    Row v[N] = {};
    PTO_UNROLL
    for (int i = 0; i < N; ++i) {
      if (i < rows) __builtin_memcpy(&v[i], from + i * row, sizeof v[i]);
      if (kExcess > 0) v[i] = v[i] ^ T(0x80);
    }
    if constexpr (N == 2) {
      const Row pairs[] = {lanes::zip_low(v[0], v[1]), lanes::zip_high(v[0], v[1])};
      __builtin_memcpy(to, pairs, sizeof pairs);
    } else {
      using Halves = Vec<uint16_t, kPanelCols / 2>;
      const auto a = bit_cast<Halves>(lanes::zip_low(v[0], v[1])),
                 b = bit_cast<Halves>(lanes::zip_low(v[2], v[3])),
                 c = bit_cast<Halves>(lanes::zip_high(v[0], v[1])),
                 d = bit_cast<Halves>(lanes::zip_high(v[2], v[3]));
      const Halves quads[] = {lanes::zip_low(a, b), lanes::zip_high(a, b), lanes::zip_low(c, d),
                              lanes::zip_high(c, d)};
      __builtin_memcpy(to, quads, sizeof quads);
    }
  }

  void multiply(const Range& block, const Range& panels, int k, int units) {
    const Place sums = stream_sums(job_.rows, block.count() * kVectors);
    for (int p = 0; p < panels.count(); ++p) {
      const int panel = panels.first + p, at = (panel - block.first) * kPanelCols;
      for (int s = 0; s < slivers(); ++s) {
        const Rows r = rows(s);
        Outputs out = outputs(sums, k > 0 ? &sums : nullptr, r.begin, at, kVectors);
        if (k == 0 && kExcess > 0) go_on_from_excess(&out, r.begin);
        if (k + kDepth >= job_.depth) end_at(&out, r.begin, panel * kPanelCols);
        if (s == 0) out.soon = soon(block, panel - block.first, k + kDepth);
        MicroKernel<Dot>::get(r.count, kVectors)(
            {a_ + r.begin * kUnits, b_ + p * kPanelBytes, units, 1, 0}, out);
      }
    }
  }
  void go_on_from_excess(Outputs* out, int row) const {
    for (int v = 0; v < kVectors; ++v)
      out->from[v] = reinterpret_cast<const char*>(begin_ + row * kPanelCols + v * kLane);
    out->from_stride = kPanelCols * int64_t(sizeof(int32_t));
  }
  // Lets the last sums go to c.
  void end_at(Outputs* out, int row, int col) const {
    if (is_narrow_) {
      auto* const to = static_cast<uint16_t*>(job_.c.data) + row * job_.c.row_stride + col;
      for (int v = 0; v < kVectors; ++v) out->to[v] = reinterpret_cast<char*>(to + v * kLane);
      out->to_stride = job_.c.row_stride * int64_t(sizeof(uint16_t));
      out->rounds = true;
      return;
    }
    for (int v = 0; v < kVectors; ++v) out->to[v] = to_.vector(row, col + v * kLane);
    out->to_stride = to_.rows.stride * int64_t(sizeof(int32_t));
  }

  // While a panel of these rows is multiplied, a piece of one of the rows that follow is asked for,
  // one row after the other: memory gives long runs faster than many short ones at once.
  Soon soon(const Range& block, int panel, int k) const {
    constexpr int kLines = kVectors * kLane * Dot::kRightBytes > kLineBytes ? 2 : 1;
    constexpr int kPiece = kUnits * kLines * kLineBytes;
    const int pieces = quotient_up(block.count() * kPanelCols * int(sizeof(T)), kPiece);
    const int row = k + panel / pieces;
    if (row >= job_.depth || panel / pieces >= kDepth) return {};
    const T* const at =
        static_cast<const T*>(job_.b.data) + row * job_.b.row_stride + block.first * kPanelCols;
    return {reinterpret_cast<const char*>(at) + panel % pieces * kPiece, kLines * kLineBytes, 0};
  }

  // Multiplies by the columns beyond the last whole panel.
  void rest(int col) {
    int32_t sums[kStreamRows * kPanelCols] = {};
    if (kExcess > 0) __builtin_memcpy(sums, begin_, sizeof sums);
    const Place to({sums, job_.c.type, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, kPanelCols, 1},
                   job_.rows, kPanelCols);
    const int64_t row = job_.b.row_stride;
    for (int k = 0; k < job_.depth; k += kDepth) {
      const int units = pack_left(k);
      for (int u = 0; u < units; ++u) {
        const int first = k + u * Dot::kPerUnit;
        T part[Dot::kPerUnit][kPanelCols] = {};
        for (int i = 0; i < Dot::kPerUnit && first + i < job_.depth; ++i)
          __builtin_memcpy(part[i], static_cast<const T*>(job_.b.data) + (first + i) * row + col,
                           size_t(job_.cols - col) * sizeof(T));
        pack_unit(b_ + u * kUnitBytes, part[0], kPanelCols, Dot::kPerUnit);
      }
      for (int s = 0; s < slivers(); ++s) {
        const Rows r = rows(s);
        MicroKernel<Dot>::get(r.count, kVectors)({a_ + r.begin * kUnits, b_, units, 1, 0},
                                                 outputs(to, &to, r.begin, 0, kVectors));
      }
    }
    for (int r = 0; r < job_.rows; ++r) to_.write(sums + r * kPanelCols, r, col, job_.cols - col);
  }

  const pto_matmul_job& job_;
  const Pack left_;
  const Place to_;
  const bool is_narrow_;
  int32_t a_[kStreamRows * kUnits], begin_[kStreamRows * kPanelCols];
  alignas(kLineBytes) char b_[kAbreast * kPanelBytes];
};

}  // namespace matmul
PTO_NAMESPACE_END
