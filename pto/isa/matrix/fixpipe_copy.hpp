// SPDX-License-Identifier: Apache-2.0
// Fixpipe copy: copies that change elements on the way: type, scale, relu, and atomic addition.
//
//     send_matrix<int8_t, float, ReluPreMode::NoRelu, Quant::Columns, AtomicType::AtomicNone>(
//         matrix_of(d), matrix_of(acc), rows, cols, fp.data());
//
// Pieces of 16 x 128 elements are copied to a dense buffer, changed there as rows of vectors, and
// copied on: three passes in the first cache, whatever the two layouts are.
//
// Invariant: elements outside the rectangle are neither read nor written.
// Thread safety: pure functions on memory of the caller; atomic addition may share its memory.
#pragma once
#include "pto/isa/matrix/fixpipe.hpp"
#include "pto/isa/memory/tile_copy.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {

using fixpipe::Quant;

template <class T>
__attribute__((noinline)) inline void add_matrix(Matrix d, Matrix s, int64_t rows, int64_t cols) {
  Cursor d_row(d.row, d.row_start), s_row(s.row, s.row_start);
  for (int64_t i = 0; i < rows; ++i, d_row.advance(1), s_row.advance(1)) {
    Cursor d_col(d.col, d.col_start), s_col(s.col, s.col_start);
    for (int64_t j = 0; j < cols; ++j, d_col.advance(1), s_col.advance(1)) {
      T value;
      __builtin_memcpy(static_cast<void*>(&value), s.base + s_row.offset + s_col.offset, sizeof(T));
      lanes::add_atomic(reinterpret_cast<T*>(d.base + d_row.offset + d_col.offset), value);
    }
  }
}

PTO_INLINE Matrix moved(Matrix m, int64_t rows, int64_t cols) {
  m.row_start += rows;
  m.col_start += cols;
  return m;
}

// Checks a tile of entries, one for each column.
template <class F, bool AreUsed = true>
constexpr bool check_entries() {
  static_assert(
      !AreUsed || (kIsTile<F> && (F::Loc == TileType::Scaling || Rules::kTakesScalesAnywhere) &&
                   sizeof(typename F::DType) == 8),
      "the scales of columns are a TileType::Scaling tile of uint64_t; move them there "
      "with TMOV");
  return true;
}
// True where scales apply to elements of S on their way to a To. Outside accumulators, the public
// simulator applies them to tiles that change their type, and ignores them otherwise.
template <class To, class S, class From = typename S::DType>
constexpr bool kIsQuantised =
    S::Loc == TileType::Acc || !Rules::kConvertsAllTiles || (!kSame<To, From> && sizeof(From) == 4);

template <class F>
PTO_INLINE const uint64_t* entries_of(const F& fp) {
  return reinterpret_cast<const uint64_t*>(fp.data());
}

constexpr int kPieceRows = 16, kPieceCols = 128;

// A dense buffer of kPieceRows x kPieceCols elements.
template <class T>
struct Piece {
  static constexpr CopyAxis kRow = CopyAxis().add(kPieceRows, kPieceCols* int(sizeof(T)));
  static constexpr CopyAxis kCol = CopyAxis().add(kPieceCols, int(sizeof(T)));
  alignas(64) T values[kPieceRows * kPieceCols];
  Piece() { __builtin_memset(static_cast<void*>(values), 0, sizeof(values)); }
  PTO_INLINE Matrix matrix() { return {bytes_of(values), &kRow, &kCol}; }
};

template <class To, class From, ReluPreMode Relu, Quant Q, int N>
PTO_INLINE void change_rows(To* to, const From* from, int64_t rows, int64_t cols,
                            const fixpipe::Parameters<N>* p, SaturationMode sat) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; j += N) {
      const auto v = lanes::load<N>(from + i * kPieceCols + j);
      if constexpr (Q == Quant::None)
        lanes::store<N>(to + i * kPieceCols + j, fixpipe::plain<To, Relu>(v));
      else
        lanes::store<N>(to + i * kPieceCols + j,
                        fixpipe::quantise<To, Relu>(v, p[Q == Quant::Columns ? j / N : 0], sat));
    }
}

template <class To, class From, ReluPreMode Relu, Quant Q, AtomicType A>
__attribute__((noinline)) void send_changed(Matrix d, Matrix s, int64_t rows, int64_t cols,
                                            const uint64_t* entries) {
  constexpr int N = kLanes<From> < kLanes<To> ? kLanes<From> : kLanes<To>;
  Piece<From> in;
  Piece<To> out;
  fixpipe::Parameters<N> p[Q == Quant::Columns ? kPieceCols / N : 1];
  const SaturationMode sat = control::saturation();
  if constexpr (Q == Quant::Scalar) p[0] = fixpipe::same<N>(*entries);
  for (int64_t c = 0; c < cols; c += kPieceCols) {
    const int64_t n = least(kPieceCols, cols - c);
    if constexpr (Q == Quant::Columns)
      for (int64_t j = 0; j < n; j += N) p[j / N] = fixpipe::each<N>(entries + c + j, int(n - j));
    for (int64_t r = 0; r < rows; r += kPieceRows) {
      const int64_t m = least(kPieceRows, rows - r);
      copy_matrix<int(sizeof(From))>(in.matrix(), moved(s, r, c), m, n);
      change_rows<To, From, Relu, Q, N>(out.values, in.values, m, n, p, sat);
      if constexpr (A == AtomicType::AtomicAdd)
        add_matrix<To>(moved(d, r, c), out.matrix(), m, n);
      else
        copy_matrix<int(sizeof(To))>(moved(d, r, c), out.matrix(), m, n);
    }
  }
}

// Computes d[i, j] = s[i, j], changed as asked. Types of one size without entries copy the bits.
template <class To, class From, ReluPreMode Relu = ReluPreMode::NoRelu, Quant Q = Quant::None,
          AtomicType A = AtomicType::AtomicNone>
PTO_INLINE void send_matrix(const Matrix& d, const Matrix& s, int64_t rows, int64_t cols,
                            const uint64_t* entries = nullptr) {
  constexpr bool kKeepsBits =
      sizeof(To) == sizeof(From) && Q == Quant::None && Relu == ReluPreMode::NoRelu;
  if constexpr (kKeepsBits && A == AtomicType::AtomicNone)
    copy_matrix<kCopied<To, From>>(d, s, rows, cols);
  else if constexpr (kKeepsBits)
    add_matrix<To>(d, s, rows, cols);
  else
    send_changed<To, From, Relu, Q, A>(d, s, rows, cols, entries);
}

}  // namespace moves
PTO_NAMESPACE_END
