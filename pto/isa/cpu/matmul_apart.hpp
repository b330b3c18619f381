// SPDX-License-Identifier: Apache-2.0
// Matmul apart: products of a few rows of floats with a b whose short rows, or columns, lie apart,
// as keys and values of one head do in a cache. Their time is that of reading b, and a CPU sees no
// pattern in it: so each tile asks for what a later one reads, and for what the product after this
// one reads, some lines between its multiply-adds.
//
//     const bool is_done = Apart(job).run();   // false: not for these sizes or this layout
//
// Rows of b pass sixteen at a time beside sums in the first cache. Columns of b are taken for rows
// of a: they multiply a panel of a's rows, and their sums are turned in registers.
//
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/matmul_place.hpp"
#include "pto/isa/cpu/matmul_requests.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

class Apart {
 public:
  explicit Apart(const pto_matmul_job& job)
      : job_(job),
        to_(job.c, job.rows, job.cols),
        slivers_(quotient_up(job.rows > 0 ? job.rows : 1, kTileRows)),
        sliver_(quotient_up(job.rows, slivers_)),
        whole_slivers_(slivers_ - (slivers_ * sliver_ - job.rows)) {}

  // Writes the outputs, or nothing.
  bool run() const {
    if (!has_few_rows()) return false;
    if (has_float_rows(job_.b, job_.b_scale, job_.depth, job_.cols)) return by_rows();
    return has_columns() && by_columns();
  }
  // The same where b has columns alone.
  bool run_by_columns() const { return has_few_rows() && has_columns() && by_columns(); }

 private:
  bool has_few_rows() const {
    if (job_.rows > kFewRows || job_.packed || job_.bias.data || job_.start.data) return false;
    return job_.depth > 0 && to_.is_plain(job_.rows, job_.cols) &&
           has_float_rows(job_.a, job_.a_scale, job_.rows, job_.depth);
  }
  bool has_columns() const {
    return has_float_rows(turned(job_.b), job_.b_scale, job_.cols, job_.depth);
  }

  static constexpr int kFewRows = PTO_MATMUL_FEW_ROWS;
  static constexpr int kLongest = 256;  // floats of a row or column of b
  static constexpr int kAhead = 16;     // rows or columns of b that are asked for early
  static constexpr int kUnits = 16;     // rows of b that pass at once
  static constexpr int kTileRows = 4;   // of a, by two vectors of columns

  static bool are_apart(int64_t stride, int length) {
    return length <= kLongest && stride >= 2 * int64_t{length};
  }
  // Requests during so many turns, where b is `count` runs of floats, `stride` apart.
  Requests requests(int64_t stride, int length, int count, int64_t turns) const {
    const pto_runs b = {job_.b.data, stride * 4, int64_t{length} * 4, count};
    return {Lines(job_.is_asked ? nullptr : &b, kAhead, turns), Lines(job_.soon, 0, turns)};
  }
  void finish(const Requests& requests) const {
    if (job_.soon) job_.soon->count = requests.next.left();
  }
  // Sums of a tile, rows by vectors: where they lie, and whether they go on from what lies there.
  struct Sums {
    char* data;
    int64_t row;  // bytes from one to the next
    bool go_on;
  };

  // Adds the products of `units` units of some rows, `left_row` apart, by vectors of columns. Each
  // group of Units, which are unrolled, is a turn.
  template <int Rows, int Vectors, int Units>
  static PTO_INLINE void tile(const int32_t* left, int64_t left_row, const char* right,
                              int64_t right_unit, int units, const Sums& sums, Requests& requests) {
    using M = Micro<FloatDot, Rows, Vectors>;
    typename M::Sum sum[Rows * Vectors];
    begin<Vectors>(typename M::All(), sum, sums);
    typename M::Placed rows(left, left_row);
    for (; units >= Units; units -= Units) {
      requests.take_turn();
      PTO_UNROLL
      for (int u = 0; u < Units; ++u, rows.go_on(1), right += right_unit, M::keep(right))
        M::template step<void>(typename M::Down(), typename M::Across(), sum, rows, 0, right);
    }
    for (; units > 0; --units, rows.go_on(1), right += right_unit)
      M::template step<void>(typename M::Down(), typename M::Across(), sum, rows, 0, right);
    end<Vectors>(typename M::All(), sum, sums);
  }
  template <int Vectors, class Sum, int... I>
  static PTO_INLINE void begin(Indices<I...>, Sum* sum, const Sums& of) {
    using M = Micro<FloatDot, 1, Vectors>;
    if (of.go_on)
      ((sum[I] = M::load(of.data + I / Vectors * of.row, I % Vectors)), ...);
    else
      ((sum[I] = Sum{}), ...);
  }
  template <int Vectors, class Sum, int... I>
  static PTO_INLINE void end(Indices<I...>, const Sum* sum, const Sums& of) {
    using Loose = typename Micro<FloatDot, 1, Vectors>::LooseSum;
    ((*reinterpret_cast<Loose*>(of.data + I / Vectors * of.row + I % Vectors * kVectorBytes) =
          sum[I]),
     ...);
  }

  // --- rows of b ---------------------------------------------------------------------------------

  bool by_rows() const {
    if (!are_apart(job_.b.row_stride, job_.cols) || job_.cols % kLane != 0) return false;
    const int64_t tiles = slivers_ * int64_t{quotient_up(job_.cols / kLane, kVectors)};
    Requests asked =
        requests(job_.b.row_stride, job_.cols, job_.depth, job_.depth / kUnits * tiles);
    for (int k = 0; k < job_.depth; k += kUnits) pass(k, smaller(kUnits, job_.depth - k), asked);
    finish(asked);
    return true;
  }
  // Adds the products of some rows of b to all sums.
  void pass(int k, int units, Requests& asked) const {
    const int32_t* left = static_cast<const int32_t*>(job_.a.data) + k;
    Sums sums = {to_.vector(0, 0), to_.rows.stride * 4, k > 0};
    for (int sliver = 0; sliver < slivers_; ++sliver) {
      const int rows = sliver_ - (sliver >= whole_slivers_);
      switch (rows) {
        case 1:
          add<1>(left, k, units, sums, asked);
          break;
        case 2:
          add<2>(left, k, units, sums, asked);
          break;
        case 3:
          add<3>(left, k, units, sums, asked);
          break;
        default:
          add<kTileRows>(left, k, units, sums, asked);
      }
      left += rows * job_.a.row_stride;
      sums.data += rows * sums.row;
    }
  }
  template <int Rows>
  void add(const int32_t* left, int k, int units, Sums sums, Requests& asked) const {
    constexpr int kTileBytes = kVectors * kVectorBytes;
    const int64_t unit = job_.b.row_stride * 4, apart = job_.a.row_stride;
    const auto* right = static_cast<const char*>(job_.b.data) + k * unit;
    int vectors = job_.cols / kLane;
    for (; vectors >= kVectors; vectors -= kVectors, right += kTileBytes, sums.data += kTileBytes)
      tile<Rows, kVectors, kUnits>(left, apart, right, unit, units, sums, asked);
    if (vectors > 0) tile<Rows, 1, kUnits>(left, apart, right, unit, units, sums, asked);
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
    if (job_.cols < kTile) return false;
    alignas(kLineBytes) int32_t panel[kLongest * kWidth], sums[kTile * kWidth];
    pto_matmul_job other = {};
    other.depth = job_.depth, other.b = turned(job_.a);
    pack_right<float>(other, panel, {0, job_.rows, kWidth, 0, job_.depth});
    const Sums out = {reinterpret_cast<char*>(sums), kWidth * 4, false};
    const int64_t turns = int64_t{quotient_up(job_.cols, kTile)} * (job_.depth / kLineUnits);
    Requests asked = requests(job_.b.col_stride, job_.depth, job_.cols, turns);
    for (int col = 0; col < job_.cols; col += kTile) {
      const int first = smaller(col, job_.cols - kTile);  // the last ones may be computed twice
      const auto* const b = static_cast<const int32_t*>(job_.b.data) + first * job_.b.col_stride;
      tile<kTile, Vectors, kLineUnits>(b, job_.b.col_stride, reinterpret_cast<const char*>(panel),
                                       kWidth * 4, job_.depth, out, asked);
      write<kTile, kWidth>(sums, first);
    }
    finish(asked);
    return true;
  }
  // Writes columns of c, which lie in rows of sums.
  template <int Tile, int Width>
  void write(const int32_t* sums, int col) const {
    constexpr int kBlock = moves::kLaneCount<4>;
    for (int row = 0; row < job_.rows; row += kBlock) {
      Vec<uint32_t, Tile> rows[kBlock];
      moves::load_transposed<4, Tile>(rows, reinterpret_cast<const char*>(sums + row), Width * 4);
      char* to = to_.vector(row, 0) + col * 4;
      for (int i = 0; i < smaller(kBlock, job_.rows - row); ++i, to += to_.rows.stride * 4)
        __builtin_memcpy(to, &rows[i], sizeof rows[i]);
    }
  }

  const pto_matmul_job& job_;
  const Place to_;
  // Rows of a in slivers: so many of sliver_ rows, and others of one less.
  const int slivers_, sliver_, whole_slivers_;
};

}  // namespace matmul
PTO_NAMESPACE_END
