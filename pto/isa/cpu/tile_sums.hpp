// SPDX-License-Identifier: Apache-2.0
// Tile sums: loads the 32 x 32 sums of a square into four tiles and stores them again. They begin
// as zeros, as job.start or as job.c, and end in job.c; a copy stands between where job.c has no
// rows of vectors.
//
//     TileSums<Way> sums(job, copy);
//     sums.make({0, 32, 0, 32}, true, true, [&](const TilePlace& from, const TilePlace& to) {
//       TileEnds<Way, 2, 2>::begin(from);   // tiles 0 to 3: above, beside, below
//       TileEnds<Way, 2, 2>::end(to);
//     });
//
// Where job.c is of bf16 sums of floats are rounded to it, once.
//
// Invariant: writes the sums of the square in job.c, but for rows and columns that are flagged, and
// nothing else. At the lower and right edges tiles have the sizes of what is left.
// Thread safety: the tiles are the thread's.
#pragma once
#include "pto/isa/cpu/matmul_stream.hpp"
#include "pto/isa/cpu/tiles.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kSide = 2 * kTileRows;  // rows and columns of the sums that tiles hold at a time
constexpr int kPair = 2 * kTileBytes;

// Where the tiles of 32 x 32 sums lie: bytes from row to row, and to the tiles below and beside.
struct TilePlace {
  char* at;  // null: zeros
  int64_t row, below, beside;
};
struct Square {
  int row, rows, col, cols;
};

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

template <class Sum>
void read_bias(const pto_matmul_matrix& bias, int col, int count, Sum* added) {
  const Axis across = cols_of(bias);
  for (int j = 0; j < count; ++j) added[j] = static_cast<const Sum*>(bias.data)[across.at(col + j)];
}
template <class Sum>
PTO_INLINE void add_row(char* at, const Sum* added, int count) {
  using Sums = Vec<Sum, kTileCols>;
  for (; count > 0; count -= kTileCols, at += sizeof(Sums), added += kTileCols) {
    const size_t bytes = size_t(smaller(count, kTileCols)) * sizeof(Sum);
    Sums sums = {}, row = {};
    if (bytes == sizeof sums) {
      __builtin_memcpy(&sums, at, sizeof sums), __builtin_memcpy(&row, added, sizeof row);
      sums += row;
      __builtin_memcpy(at, &sums, sizeof sums);
    } else {
      __builtin_memcpy(&sums, at, bytes), __builtin_memcpy(&row, added, bytes);
      sums += row;
      __builtin_memcpy(at, &sums, bytes);
    }
  }
}

// Writes part of a row of sums, run by run of columns without flags; flags may be null.
inline void write_unflagged(const Place& to, const int32_t* sums, int row, int col, int count,
                            const uint8_t* flags) {
  for (int j = 0, end = 0; j < count; j = end + 1) {
    for (end = j; end < count && !(flags && flags[end]);) ++end;
    if (end > j) to.write(sums + j, row, col + j, end - j);
  }
}

template <class Way>
class TileSums {
  using Sum = typename Way::Sum;

 public:
  TileSums(const pto_matmul_job& job, int32_t (*copy)[kSide])
      : job_(job),
        copy_(copy),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols) {}

  // Flags of all rows and columns: what is flagged keeps what it is. Null: none are.
  const uint8_t *row_flags = nullptr, *col_flags = nullptr;

  // Calls kernel(from, to) with tiles configured for the square.
  template <class Kernel>
  void make(const Square& s, bool is_first, bool is_last, Kernel kernel) {
    configure(s.rows, s.cols);
    const Place* const source = !is_first ? &to_ : job_.start.data ? &from_ : nullptr;
    const TilePlace copy = {reinterpret_cast<char*>(copy_[0]), sizeof copy_[0],
                            kTileRows * sizeof copy_[0], kTileRowBytes};
    const bool is_rounded = job_.c.type == PTO_MATMUL_BF16;
    const bool goes_direct = !is_rounded && has_tiles(to_) && !has_flags(s);
    const TilePlace to = goes_direct ? place_of(to_, s) : copy;
    TilePlace from = {};
    if (source && has_tiles(*source)) {
      from = place_of(*source, s);
    } else if (source) {
      from = copy;
      for (int i = 0; i < s.rows; ++i) source->read(copy_[i], s.row + i, s.col, s.cols);
    }
    kernel(from, to);
    if (job_.bias.data && is_last) add_bias(to, s);
    for (int i = 0; !goes_direct && i < s.rows; ++i)
      if (is_rounded)
        write_rounded<bfloat16_t>(job_.c, copy_[i], s.row + i, s.col, s.cols);
      else if (!row_flags || !row_flags[s.row + i])
        write_unflagged(to_, copy_[i], s.row + i, s.col, s.cols,
                        col_flags ? col_flags + s.col : nullptr);
  }

 private:
  void configure(int rows, int cols) {
    if (rows == rows_ && cols == cols_) return;
    rows_ = rows, cols_ = cols;
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

  bool has_tiles(const Place& place) const {
    return place.cols.stride == 1 &&
           (place.cols.box >= job_.cols || place.cols.box % kTileCols == 0) &&
           (place.rows.box >= job_.rows || place.rows.box % kTileRows == 0);
  }
  static TilePlace place_of(const Place& place, const Square& s) {
    int32_t* const at = place.at(s.row, s.col);
    return {reinterpret_cast<char*>(at), place.rows.stride * 4,
            s.rows > kTileRows ? 4 * (place.at(s.row + kTileRows, s.col) - at) : 0,
            s.cols > kTileCols ? 4 * (place.at(s.row, s.col + kTileCols) - at) : 0};
  }

  bool has_flags(const Square& s) const {
    return has_flag(row_flags, s.row, s.rows) || has_flag(col_flags, s.col, s.cols);
  }
  static bool has_flag(const uint8_t* flags, int first, int count) {
    if (!flags) return false;
    uint64_t any = 0;
    for (; count >= 8; first += 8, count -= 8) {
      uint64_t eight;
      __builtin_memcpy(&eight, flags + first, sizeof eight);
      any |= eight;
    }
    for (; count > 0; ++first, --count) any |= flags[first];
    return any != 0;
  }

  void add_bias(const TilePlace& to, const Square& s) const {
    Sum added[kSide];
    read_bias(job_.bias, s.col, s.cols, added);
    for (int i = 0; i < s.rows; ++i)
      for (int j = 0; j < s.cols; j += kTileCols) {
        char* const at =
            to.at + i / kTileRows * to.below + i % kTileRows * to.row + (j > 0 ? to.beside : 0);
        add_row(at, added + j, smaller(s.cols - j, kTileCols));
      }
  }

  const pto_matmul_job& job_;
  int32_t (*const copy_)[kSide];
  const Place to_, from_;
  int rows_ = 0, cols_ = 0;  // that the tiles are configured for
};

}  // namespace matmul
PTO_NAMESPACE_END
