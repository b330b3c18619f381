// SPDX-License-Identifier: Apache-2.0
// Tile sums: loads the 32 x 32 sums of a square into four tiles and stores them again. They begin
// as zeros, as job.start or as job.c, and end in job.c; a copy stands between where job.c has no
// rows of vectors, where something is added or rounded, or everywhere.
//
//     TileSums<Way> sums(job, copies);
//     sums.make({0, 32, 0, 32}, true, true, [&](const TilePlace& from, const TilePlace& to) {
//       TileEnds<Way, 2, 2>::begin(from);   // tiles 0 to 3: above, beside, below
//       sums.write_some();                  // of the last copy, while tiles multiply
//       TileEnds<Way, 2, 2>::end(to);
//     });
//     sums.finish();                        // before anything reads job.c
//
// Invariant: writes the sums of the square in job.c, but for rows and columns that are flagged, and
// nothing else. At the lower and right edges tiles have the sizes of what is left.
// Thread safety: the tiles are the thread's.
#pragma once
#include "pto/isa/cpu/copied_sums.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kPair = 2 * kTileBytes;

// Rows x Cols tiles of sums, of at most 2 x 2.
template <class Way, int Rows, int Cols>
struct TileEnds {
  static PTO_INLINE void begin(const TilePlace& from) {
    begin<0>(from), begin<1>(from), begin<2>(from), begin<3>(from);
  }
  static PTO_INLINE void end(const TilePlace& to) {
    end<0>(to), end<1>(to), end<2>(to), end<3>(to);
  }

 private:
  template <int T>
  static PTO_INLINE void begin(const TilePlace& from) {
    if constexpr (T / 2 < Rows && T % 2 < Cols) {
      if (from.at)
        Way::template load<T>(from.at + T / 2 * from.below + T % 2 * from.beside, from.row);
      else
        Way::template zero<T>();
    }
  }
  template <int T>
  static PTO_INLINE void end(const TilePlace& to) {
    if constexpr (T / 2 < Rows && T % 2 < Cols)
      Way::template store<T>(to.at + T / 2 * to.below + T % 2 * to.beside, to.row);
  }
};

// Gives tiles the sizes of at most 32 x 32 sums and of their operands, and zeros them.
template <class Way>
void configure_tiles(int rows, int cols) {
  const int down[] = {smaller(rows, kTileRows), rows - smaller(rows, kTileRows)};
  const int across[] = {4 * smaller(cols, kTileCols), 4 * (cols - smaller(cols, kTileCols))};
  TileConfig config;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) config.set(2 * i + j, down[i], across[j]);
    config.set(4 + i, down[i], kTileRowBytes);
    config.set(6 + i, kTileRows, across[i]);
  }
  Way::configure(config);
}

template <class Way>
class TileSums {
 public:
  // `copies_lines`: also squares that tiles could store, as the kernel writes some each step.
  TileSums(const pto_matmul_job& job, SumCopies& copies, bool copies_lines = false)
      : job_(job),
        copies_lines_(copies_lines),
        copied_(job, copies),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols) {}

  LineFlags flags = {};

  // Calls kernel(from, to) with tiles configured for the square.
  template <class Kernel>
  void make(const Square& s, bool is_first, bool is_last, const Kernel& kernel) {
    configure(s.rows, s.cols);
    const Place* const source = !is_first ? &to_ : job_.start.data ? &from_ : nullptr;
    const bool has_bias = job_.bias.data && is_last;
    const bool has_lines = job_.c.type != PTO_MATMUL_BF16 && has_tiles(to_) && !has_flags(s);
    const bool is_copied = copies_lines_ || has_bias || !has_lines;
    TilePlace from, to;
    if (is_copied)
      to.set(copied_.next());
    else
      to.set(to_, s);
    if (!source)
      from.at = nullptr;
    else if (has_tiles(*source))
      from.set(*source, s);
    else
      read(*source, s, from);
    kernel(from, to);
    copied_.finish();
    if (is_copied) copied_.add(s, has_bias, has_lines, flags);
    if (!has_lines) copied_.finish();
  }

  bool has_copy() const { return copied_.has_some(); }
  void write_some() { copied_.write_some(); }
  void finish() { copied_.finish(); }

 private:
  void configure(int rows, int cols) {
    if (rows == rows_ && cols == cols_) return;
    rows_ = rows, cols_ = cols;
    configure_tiles<Way>(rows, cols);
  }

  bool has_tiles(const Place& place) const {
    return place.cols.stride == 1 &&
           (place.cols.box >= job_.cols || place.cols.box % kTileCols == 0) &&
           (place.rows.box >= job_.rows || place.rows.box % kTileRows == 0);
  }
  void read(const Place& source, const Square& s, TilePlace& from) {
    SumCopy& sums = copied_.next();
    for (int i = 0; i < s.rows; ++i) source.read(sums[i], s.row + i, s.col, s.cols);
    from.set(sums);
  }

  bool has_flags(const Square& s) const {
    return (flags.rows && has_flag(flags.rows + s.row, s.rows)) ||
           (flags.cols && has_flag(flags.cols + s.col, s.cols));
  }

  const pto_matmul_job& job_;
  const bool copies_lines_;
  CopiedSums<typename Way::Sum> copied_;
  const Place to_, from_;
  int rows_ = 0, cols_ = 0;  // that the tiles are configured for
};

}  // namespace matmul
PTO_NAMESPACE_END
