// SPDX-License-Identifier: Apache-2.0
// Matmul place: where the outputs of a product lie, and whether its operands can be read there.
//
//     const Place to(job.c, job.rows, job.cols);
//     if (to.has_vectors) kernel(outputs(to, &to, row, col, 2));   // go on from what lies there
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// An accumulator: elements of 4 or 8 bytes, integers of that size, in any layout.
template <class Word>
struct PlaceOf {
  static constexpr int kLane = kVectorBytes / int(sizeof(Word));
  Word* data;
  Axis rows, cols;
  bool has_vectors;

  PlaceOf(const pto_matmul_matrix& m, int row_count, int col_count)
      : data(static_cast<Word*>(m.data)), rows(rows_of(m)), cols(cols_of(m)) {
    has_vectors = cols.stride == 1 && (cols.box % kLane == 0 || cols.box >= col_count) &&
                  (rows.box >= row_count || rows.box_stride == rows.box * rows.stride);
  }
  // True where all rows x cols are plain rows, not boxes.
  bool is_plain(int row_count, int col_count) const {
    return has_vectors && cols.box >= col_count && rows.box >= row_count;
  }
  Word* at(int row, int col) const { return data + rows.at(row) + cols.at(col); }
  // Copies some elements of a row.
  void read(Word* part, int row, int col, int count) const {
    if (has_vectors && cols.box >= col + count)
      __builtin_memcpy(part, vector(row, col), size_t(count) * sizeof(Word));
    else
      for (int j = 0; j < count; ++j) part[j] = *at(row, col + j);
  }
  void write(const Word* part, int row, int col, int count) const {
    if (has_vectors && cols.box >= col + count)
      __builtin_memcpy(vector(row, col), part, size_t(count) * sizeof(Word));
    else
      for (int j = 0; j < count; ++j) *at(row, col + j) = part[j];
  }
  // Where it has vectors: one of them, whose rows lie evenly apart.
  PTO_INLINE char* vector(int row, int col) const {
    return reinterpret_cast<char*>(data + row * rows.stride + cols.at(col));
  }
};

using Place = PlaceOf<int32_t>;

// Rounds floats into a row of c, of T, f16 or bf16.
template <class T>
void write_rounded(const pto_matmul_matrix& c, const void* sums, int row, int col, int count) {
  T* const to = static_cast<T*>(c.data) + row * c.row_stride + col;
  const auto* const from = static_cast<const float*>(sums);
  int j = 0;
  for (; j + kLane <= count; j += kLane) lanes::store<kLane>(to + j, lanes::load<kLane>(from + j));
  if (j < count) lanes::store_part<kLane>(to + j, lanes::load<kLane>(from + j), count - j);
}

// True where elements of each row lie together and count as they are.
inline bool has_rows(const pto_matmul_matrix& m, const pto_matmul_matrix& scales, int rows,
                     int cols) {
  return m.col_stride == 1 && !scales.data && m.box_cols >= cols && m.box_rows >= rows;
}
inline bool has_float_rows(const pto_matmul_matrix& m, const pto_matmul_matrix& scales, int rows,
                           int cols) {
  return m.type == PTO_MATMUL_F32 && has_rows(m, scales, rows, cols);
}

// The same elements with rows and columns exchanged.
inline pto_matmul_matrix turned(const pto_matmul_matrix& m) {
  return {m.data,           m.type,           m.box_cols,   m.box_rows,
          m.box_col_stride, m.box_row_stride, m.col_stride, m.row_stride};
}

// Describes the outputs of some vectors of columns; `from` may be null. Both have vectors.
template <class Word>
PTO_INLINE Outputs outputs(const PlaceOf<Word>& to, const PlaceOf<Word>* from, int row, int col,
                           int vectors) {
  constexpr int kLane = PlaceOf<Word>::kLane;
  Outputs out = {};
  for (int v = 0; v < vectors; ++v) {
    out.to[v] = to.vector(row, col + v * kLane);
    if (from) out.from[v] = from == &to ? out.to[v] : from->vector(row, col + v * kLane);
  }
  out.to_stride = to.rows.stride * int64_t(sizeof(Word));
  if (from) out.from_stride = from->rows.stride * int64_t(sizeof(Word));
  return out;
}

}  // namespace matmul
PTO_NAMESPACE_END
