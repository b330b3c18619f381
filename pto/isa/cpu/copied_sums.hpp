// SPDX-License-Identifier: Apache-2.0
// Copied sums: squares of 32 x 32 sums on their way from tiles to job.c, with what is added to them
// or rounded there. A square of lines as they are, or with a bias, is written while tiles multiply
// the next: where rows of c lie a power of two apart tiles would keep each other from the cache.
//
//     CopiedSums<float> copied(job, copies);
//     Way::store<0>(copied.next(), 128);               // a square, for this one a tile of it
//     copied.finish();                                 // the square before
//     copied.add({0, 32, 0, 32}, has_bias, has_lines, {});
//     copied.write_some();                             // 4 of its rows
//
// Where job.c is of bf16 sums of floats are rounded to it, once.
//
// Stores of tiles wait for their products, and a load of what smaller stores wrote waits for all
// stores before. So what is made for a square is never copied as a struct: the next square would
// begin when the last has ended.
//
// Invariant: writes the sums of a square in job.c, but for rows and columns that are flagged, and
// nothing else.
// Thread safety: none; each thread has its own.
#pragma once
#include "pto/isa/cpu/matmul_stream.hpp"
#include "pto/isa/cpu/tiles.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kSide = 2 * kTileRows;  // rows and columns of the sums that tiles hold at a time
constexpr int kCopyRows = 4;          // of a copy that are written in a step

struct Square {
  int row, rows, col, cols;
};
using SumCopy = int32_t[kSide][kSide];
using SumCopies = SumCopy[2];

// Where the tiles of a square lie: bytes from row to row, and to the tiles below and beside.
struct TilePlace {
  char* at;  // null: nowhere
  int64_t row, below, beside;

  void set(const Place& place, const Square& s) {
    int32_t* const first = place.at(s.row, s.col);
    at = reinterpret_cast<char*>(first), row = place.rows.stride * 4;
    below = s.rows > kTileRows ? 4 * (place.at(s.row + kTileRows, s.col) - first) : 0;
    beside = s.cols > kTileCols ? 4 * (place.at(s.row, s.col + kTileCols) - first) : 0;
  }
  void set(SumCopy& copy) {
    at = reinterpret_cast<char*>(copy[0]), row = sizeof copy[0];
    below = kTileRows * row, beside = kTileRowBytes;
  }
};

// Flags of all rows and columns: what is flagged keeps what it is. Null: none are.
struct LineFlags {
  const uint8_t *rows, *cols;
};

template <class Sum>
void read_bias(const pto_matmul_matrix& bias, int col, int count, Sum* added) {
  const Axis across = cols_of(bias);
  if (across.stride == 1 && across.box >= col + count) {
    __builtin_memcpy(added, static_cast<const Sum*>(bias.data) + col, size_t(count) * sizeof(Sum));
    return;
  }
  for (int j = 0; j < count; ++j) added[j] = static_cast<const Sum*>(bias.data)[across.at(col + j)];
}
template <class Sum>
PTO_INLINE Vec<Sum, kTileCols> added_line(const void* sums, const Sum* added) {
  Vec<Sum, kTileCols> line, row;
  __builtin_memcpy(&line, sums, sizeof line), __builtin_memcpy(&row, added, sizeof row);
  return line + row;
}
// Both rows lie in copies, which have room for whole vectors.
template <class Sum>
PTO_INLINE void add_row(int32_t* sums, const Sum* added, int count) {
  for (int j = 0; j < count; j += kTileCols) {
    const Vec<Sum, kTileCols> line = added_line(sums + j, added + j);
    __builtin_memcpy(sums + j, &line, sizeof line);
  }
}

inline bool has_flag(const uint8_t* flags, int count) {
  uint64_t any = 0;
  for (; count >= 8; flags += 8, count -= 8) {
    uint64_t eight;
    __builtin_memcpy(&eight, flags, sizeof eight);
    any |= eight;
  }
  for (; count > 0; ++flags, --count) any |= *flags;
  return any != 0;
}
// Writes part of a row of sums, run by run of columns without flags; flags may be null.
inline void write_unflagged(const Place& to, const int32_t* sums, int row, int col, int count,
                            const uint8_t* flags) {
  if (!flags || !has_flag(flags, count)) return to.write(sums, row, col, count);
  for (int j = 0, end = 0; j < count; j = end + 1) {
    for (end = j; end < count && !flags[end];) ++end;
    if (end > j) to.write(sums + j, row, col + j, end - j);
  }
}

template <class Sum>
class CopiedSums {
 public:
  CopiedSums(const pto_matmul_job& job, SumCopies& copies)
      : job_(job), copies_(copies), to_(job.c, job.rows, job.cols) {}

  // Returns where the sums of a square may go that is added later.
  SumCopy& next() { return copies_[next_]; }

  // Takes the square in next(). `has_lines`: rows of vectors in job.c take all of it.
  void add(const Square& s, bool has_bias, bool has_lines, const LineFlags& flags) {
    row_ = s.row, rows_ = s.rows, col_ = s.col, cols_ = s.cols;
    written_ = 0, has_bias_ = has_bias, has_lines_ = has_lines;
    row_flags_ = flags.rows, col_flags_ = flags.cols ? flags.cols + s.col : nullptr;
    if (has_lines) lines_.set(to_, s);
    if (has_bias)
      read_bias(job_.bias, s.col, s.cols, bias_);
    else
      for (Sum& none : bias_) none = Sum(-0.0f);  // which changes no sum, not even -0
    next_ = !next_;
  }

  bool has_some() const { return written_ < rows_; }
  void write_some() {
    if (written_ < rows_) write(smaller(written_ + kCopyRows, int(rows_)));
  }
  void finish() {
    if (written_ < rows_) write(int(rows_));
  }

 private:
  void write(int end) {
    const int begin = written_, row = int(row_), col = int(col_), cols = int(cols_);
    written_ = end;
    if (has_lines_) return write_lines(begin, end);
    SumCopy& sums = copies_[!next_];
    for (int i = begin; has_bias_ && i < end; ++i) add_row(sums[i], bias_, cols);
    if (job_.c.type == PTO_MATMUL_BF16) {
      for (int i = begin; i < end; ++i)
        write_rounded<bfloat16_t>(job_.c, sums[i], row + i, col, cols);
    } else {
      for (int i = begin; i < end; ++i)
        if (!row_flags_ || !row_flags_[row + i])
          write_unflagged(to_, sums[i], row + i, col, cols, col_flags_);
    }
  }
  // Part by part, as boxes may end between two tiles.
  void write_lines(int begin, int end) const {
    const int cols = int(cols_);
    for (int row = begin, stop = 0; row < end; row = stop) {
      stop = smaller(end, (row / kTileRows + 1) * kTileRows);
      const int32_t* const sums = copies_[!next_][row];
      char* const at = lines_.at + row / kTileRows * lines_.below + row % kTileRows * lines_.row;
      write_tile(sums, bias_, stop - row, cols, at);
      if (cols > kTileCols)
        write_tile(sums + kTileCols, bias_ + kTileCols, stop - row, cols - kTileCols,
                   at + lines_.beside);
    }
  }
  void write_tile(const int32_t* sums, const Sum* bias, int rows, int cols, char* at) const {
    const int count = smaller(cols, kTileCols);
    for (int64_t i = 0, step = lines_.row; i < rows; ++i, sums += kSide, at += step) {
      const Vec<Sum, kTileCols> line = added_line(sums, bias);
      if (count == kTileCols)
        __builtin_memcpy(at, &line, sizeof line);
      else
        lanes::store_part<kTileCols>(reinterpret_cast<Sum*>(at), line, count);
    }
  }

  const pto_matmul_job& job_;
  SumCopies& copies_;
  const Place to_;
  bool next_ = false, has_bias_ = false, has_lines_ = false;
  int written_ = 0;                                  // rows of the square in the other copy
  int64_t row_ = 0, col_ = 0, rows_ = 0, cols_ = 0;  // as ints they were copied as one vector
  const uint8_t *row_flags_ = nullptr, *col_flags_ = nullptr;
  TilePlace lines_ = {};
  Sum bias_[kSide];
};

}  // namespace matmul
PTO_NAMESPACE_END
