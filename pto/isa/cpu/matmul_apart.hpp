// SPDX-License-Identifier: Apache-2.0
// Matmul apart: products of a few rows of floats with a b whose short rows, or columns, lie apart,
// as keys and values of one head do in a cache. Their time is that of reading b, and a CPU sees no
// pattern in it: so each tile asks for what a later one reads, one line after the other between
// its multiply-adds.
//
//     const bool is_done = Apart(job).run();   // false: not for these sizes or this layout
//
// Rows of b pass eight at a time beside sums in the first cache. Columns of b are taken for rows of
// a: they multiply a panel of a's rows, and their sums are turned in registers.
//
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/matmul_place.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Runs of memory at equal distances, to be asked for line by line.
class Lines {
 public:
  Lines(const void* first, int64_t distance, int64_t bytes, int count)
      : row_(static_cast<const char*>(first)), distance_(distance), bytes_(bytes), left_(count) {
    start();
  }
  PTO_INLINE void ask() {
    if (left_ <= 0) return;
    __builtin_prefetch(at_, 0, 3);
    at_ += kLineBytes;
    if (at_ >= row_ + bytes_) next();
  }
  void ask_row() {
    for (const int before = left_; left_ == before && left_ > 0;) ask();
  }

 private:
  void start() { at_ = row_ - reinterpret_cast<uintptr_t>(row_) % kLineBytes; }
  PTO_INLINE void next() {
    --left_;
    row_ += distance_;
    start();
  }
  const char *row_, *at_;
  const int64_t distance_, bytes_;
  int left_;
};

class Apart {
 public:
  explicit Apart(const pto_matmul_job& job) : job_(job), to_(job.c, job.rows, job.cols) {}

  // Writes the outputs, or nothing.
  bool run() const {
    if (job_.rows > kFewRows || job_.packed || job_.bias.data || job_.start.data) return false;
    if (job_.depth <= 0 || !to_.is_plain(job_.rows, job_.cols)) return false;
    if (!has_float_rows(job_.a, job_.a_scale, job_.rows, job_.depth)) return false;
    if (has_float_rows(job_.b, job_.b_scale, job_.depth, job_.cols)) return by_rows();
    if (has_float_rows(turned(job_.b), job_.b_scale, job_.cols, job_.depth)) return by_columns();
    return false;
  }

 private:
  static constexpr int kFewRows = PTO_MATMUL_FEW_ROWS;
  static constexpr int kLongest = 256;  // floats of a row or column of b
  static constexpr int kAhead = 16;     // rows or columns of b that are asked for early
  static constexpr int kUnits = 8;      // rows of b that pass at once
  static constexpr int kTileRows = 4;   // of a, by two vectors of columns

  static bool are_apart(int64_t stride, int length) {
    return length <= kLongest && stride >= 2 * int64_t{length};
  }
  Lines lines(int64_t stride, int length, int count) const {
    Lines found(job_.b.data, stride * 4, int64_t{length} * 4, count);
    for (int i = 0; i < kAhead && i < count; ++i) found.ask_row();
    return found;
  }
  const int32_t* left_at(int row, int k) const {
    return static_cast<const int32_t*>(job_.a.data) + row * job_.a.row_stride + k;
  }

  // Adds the products of `units` units of some rows, `left_row` apart, by vectors of columns, and
  // asks for a line at each `every`-th unit.
  template <int Rows, int Vectors>
  static PTO_INLINE void tile(const int32_t* left, int64_t left_row, const char* right,
                              int64_t right_unit, int units, int every, const Outputs& sums,
                              Lines& soon) {
    using M = Micro<FloatDot, Rows, Vectors>;
    typename M::Sum sum[Rows * Vectors];
    M::begin(typename M::All(), sum, sums);
    typename M::Placed rows(left, left_row);
    for (int u = 0; u < units;) {
      soon.ask();
      const int next = smaller(u + every, units);
      for (; u < next; ++u, rows.go_on(1), right += right_unit)
        M::template step<void>(typename M::Down(), typename M::Across(), sum, rows, 0, right);
    }
    M::end(typename M::All(), sum, sums);
  }

  // --- rows of b ---------------------------------------------------------------------------------

  bool by_rows() const {
    if (!are_apart(job_.b.row_stride, job_.cols) || job_.cols % kLane != 0) return false;
    Lines soon = lines(job_.b.row_stride, job_.cols, job_.depth);
    for (int k = 0; k < job_.depth; k += kUnits) pass(k, smaller(kUnits, job_.depth - k), soon);
    return true;
  }
  // Adds the products of some rows of b to all sums.
  void pass(int k, int units, Lines& soon) const {
    const int slivers = quotient_up(job_.rows, kTileRows);
    for (int s = 0; s < slivers; ++s) {
      const int row = share(job_.rows, s, slivers);
      const Run run = {row, k, units, slivers};
      switch (share(job_.rows, s + 1, slivers) - row) {
        case 1:
          add<1>(run, soon);
          break;
        case 2:
          add<2>(run, soon);
          break;
        case 3:
          add<3>(run, soon);
          break;
        default:
          add<kTileRows>(run, soon);
      }
    }
  }
  // Rows of a from `row` on by some rows of b, which so many slivers of a multiply.
  struct Run {
    int row, k, units, slivers;
  };
  template <int Rows>
  void add(const Run& run, Lines& soon) const {
    const int32_t* const left = left_at(run.row, run.k);
    const int64_t unit = job_.b.row_stride * 4;
    const auto* right = static_cast<const char*>(job_.b.data) + run.k * unit;
    Outputs sums = outputs(to_, run.k > 0 ? &to_ : nullptr, run.row, 0, kVectors);
    int vectors = job_.cols / kLane;
    for (; vectors >= kVectors; vectors -= kVectors, right += kVectors * kVectorBytes) {
      tile<Rows, kVectors>(left, job_.a.row_stride, right, unit, run.units, run.slivers, sums,
                           soon);
      Micro<FloatDot, Rows, kVectors>::go_across(typename IndicesTo<kVectors>::type(), sums);
    }
    if (vectors > 0)
      tile<Rows, 1>(left, job_.a.row_stride, right, unit, run.units, run.slivers, sums, soon);
  }

  // --- columns of b ------------------------------------------------------------------------------

  bool by_columns() const {
    if (!are_apart(job_.b.col_stride, job_.depth)) return false;
    const int vectors = quotient_up(job_.rows, kLane);
    if constexpr (kLane >= kGroup) {  // the columns that packers write at least
      if (vectors == 1) return by_columns<1>();
    }
    return vectors <= 2 && by_columns<2>();
  }
  // Columns of b that are multiplied at once by the rows of a, side by side in vectors.
  template <int Vectors>
  bool by_columns() const {
    constexpr int kTile = Vectors == 1 ? 8 : 4, kWidth = Vectors * kLane;
    constexpr int kEvery = kLineUnits / kTile;
    if (job_.cols < kTile) return false;
    alignas(kLineBytes) int32_t panel[kLongest * kWidth], sums[kTile * kWidth];
    pto_matmul_job other = {};
    other.depth = job_.depth, other.b = turned(job_.a);
    pack_right<float>(other, panel, {0, job_.rows, kWidth, 0, job_.depth});
    Outputs out = {};
    for (int v = 0; v < Vectors; ++v) out.to[v] = reinterpret_cast<char*>(sums + v * kLane);
    out.to_stride = kWidth * 4;
    Lines soon = lines(job_.b.col_stride, job_.depth, job_.cols);
    for (int col = 0; col < job_.cols; col += kTile) {
      const int first = smaller(col, job_.cols - kTile);  // the last ones may be computed twice
      const auto* const b = static_cast<const int32_t*>(job_.b.data) + first * job_.b.col_stride;
      tile<kTile, Vectors>(b, job_.b.col_stride, reinterpret_cast<const char*>(panel), kWidth * 4,
                           job_.depth, kEvery, out, soon);
      write<kTile, kWidth>(sums, first);
    }
    return true;
  }
  // Writes columns of c, which lie in rows of sums.
  template <int Tile, int Width>
  void write(const int32_t* sums, int col) const {
    constexpr int kBlock = moves::kLaneCount<4>;
    for (int row = 0; row < job_.rows; row += kBlock) {
      Vec<uint32_t, Tile> rows[kBlock];
      moves::load_transposed<4, Tile>(rows, reinterpret_cast<const char*>(sums + row), Width * 4);
      for (int i = 0; i < smaller(kBlock, job_.rows - row); ++i)
        __builtin_memcpy(to_.at(row + i, col), &rows[i], sizeof rows[i]);
    }
  }

  const pto_matmul_job& job_;
  const Place to_;
};

}  // namespace matmul
PTO_NAMESPACE_END
