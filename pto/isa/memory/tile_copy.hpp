// SPDX-License-Identifier: Apache-2.0
// The copy engine: copies a rectangle of elements from one layout to another. It treats tiles of
// every layout and views of memory alike.
//
//     copy_matrix<4>(matrix_of(d), matrix_of(s), rows, cols);
//     copy_matrix<4>(matrix_of(d), matrix_of(s, 8, 16), rows, cols);    // from row 8, column 16
//
// An axis (the rows or the columns) of a layout is a number of digits, the innermost first: element
// i lies at the sum of its digits times their strides. A row-major tile has one digit on each axis,
// a boxed one two where boxes interrupt it, memory up to four. Blocks in which no digit carries are
// strided rectangles: copied as lines, or transposed in registers, or element by element.
// For elements of half a byte (twins) all strides and offsets count halves, the low half first.
//
// Invariant: elements outside the rectangle are neither read nor written. Nothing is divided per
// element. Source and destination do not overlap unless they are the same elements.
// Thread safety: pure functions on memory of the caller.
#pragma once
#include "pto/isa/cpu/transpose.hpp"
#include "pto/isa/tile/tile.hpp"

PTO_NAMESPACE_BEGIN
namespace moves {

constexpr int64_t kEndless = INT64_MAX / 2;

struct CopyAxis {
  int64_t size[4] = {};
  int64_t stride[4] = {};  // bytes
  int digits = 0;

  constexpr CopyAxis() = default;
  // Adds the next digit outwards; merges one that continues the last.
  constexpr PTO_INLINE CopyAxis& add(int64_t count, int64_t bytes) {
    if (digits > 0 && (count == 1 || size[digits - 1] * stride[digits - 1] == bytes)) {
      size[digits - 1] *= count;
    } else if (digits > 0 && size[digits - 1] == 1) {
      size[digits - 1] = count;
      stride[digits - 1] = bytes;
    } else {
      size[digits] = count;
      stride[digits] = bytes;
      ++digits;
    }
    return *this;
  }
  constexpr PTO_INLINE int64_t extent() const {
    int64_t n = 1;
    for (int i = 0; i < digits; ++i) n *= size[i];
    return n;
  }
};

// A layout and the element at which the rectangle starts.
struct Matrix {
  char* base;
  const CopyAxis* row;
  const CopyAxis* col;
  int64_t row_start = 0, col_start = 0;
};

// Walks along an axis.
struct Cursor {
  const CopyAxis* axis;
  int64_t digit[4] = {};
  int64_t offset = 0;

  PTO_INLINE Cursor(const CopyAxis* a, int64_t start) : axis(a) {
    for (int i = 0; start > 0 && i < a->digits; ++i) {
      digit[i] = i + 1 < a->digits ? start % a->size[i] : start;
      offset += digit[i] * a->stride[i];
      start = i + 1 < a->digits ? start / a->size[i] : 0;
    }
  }
  PTO_INLINE int64_t stride() const { return axis->stride[0]; }
  // Counts the elements until a digit carries; the outermost digit never does.
  PTO_INLINE int64_t run() const { return axis->digits > 1 ? axis->size[0] - digit[0] : kEndless; }
  // Counts equal pieces of `length` elements from here on, and returns the distance between them.
  PTO_INLINE int64_t pieces(int64_t length, int64_t* step) const {
    if (axis->digits > 1 && digit[0] == 0 && axis->size[0] == length) {
      *step = axis->stride[1];
      return axis->digits > 2 ? axis->size[1] - digit[1] : kEndless;
    }
    *step = length * axis->stride[0];
    return axis->digits > 1 ? run() / length : kEndless;
  }
  // Moves on by at most run() elements, or by whole pieces.
  PTO_INLINE void advance(int64_t n) {
    const CopyAxis& a = *axis;
    digit[0] += n;
    offset += n * a.stride[0];
    for (int i = 0; i + 1 < a.digits && digit[i] >= a.size[i]; ++i) {
      const int64_t carry = i == 0 ? digit[0] / a.size[0] : 1;
      digit[i] -= carry * a.size[i];
      digit[i + 1] += carry;
      offset += carry * (a.stride[i + 1] - a.size[i] * a.stride[i]);
    }
  }
};

template <int Bytes>
struct Chunk {
  typedef uint8_t type __attribute__((vector_size(Bytes), aligned(1), may_alias));
};
template <int Bytes>
PTO_INLINE void copy_chunk(char* d, const char* s) {
  using V = typename Chunk<Bytes>::type;
  *reinterpret_cast<V*>(d) = *reinterpret_cast<const V*>(s);
}

// Copies lines of up to some KB, with two overlapping vectors at the end instead of a rest.
PTO_INLINE void copy_line(char* d, const char* s, int64_t bytes) {
  if (bytes >= 64) {
    int64_t i = 0;
    for (; i + 64 <= bytes; i += 64) {
      copy_chunk<32>(d + i, s + i);
      copy_chunk<32>(d + i + 32, s + i + 32);
    }
    if (i < bytes) {
      copy_chunk<32>(d + bytes - 64, s + bytes - 64);
      copy_chunk<32>(d + bytes - 32, s + bytes - 32);
    }
  } else if (bytes >= 32) {
    copy_chunk<32>(d, s);
    copy_chunk<32>(d + bytes - 32, s + bytes - 32);
  } else if (bytes >= 16) {
    copy_chunk<16>(d, s);
    copy_chunk<16>(d + bytes - 16, s + bytes - 16);
  } else {
    for (int64_t i = 0; i < bytes; ++i) d[i] = s[i];
  }
}

// `count` panels of `lines` lines of `bytes` contiguous bytes.
struct CopyPanels {
  char* d;
  const char* s;
  int64_t d_line, s_line;    // from line to line
  int64_t d_panel, s_panel;  // from panel to panel
  int64_t lines, count;
};

// Copies eight lines of every panel before the next eight: both sides then use a cache line whole.
template <int Bytes>
PTO_INLINE void copy_narrow_panels(const CopyPanels& p) {
  for (int64_t first = 0; first < p.lines; first += 8) {
    const int64_t n = p.lines - first < 8 ? p.lines - first : 8;
    char* d = p.d + first * p.d_line;
    const char* s = p.s + first * p.s_line;
    for (int64_t k = 0; k < p.count; ++k, d += p.d_panel, s += p.s_panel) {
      if (n == 8) {
        PTO_UNROLL
        for (int64_t i = 0; i < 8; ++i) copy_chunk<Bytes>(d + i * p.d_line, s + i * p.s_line);
      } else {
        for (int64_t i = 0; i < n; ++i) copy_chunk<Bytes>(d + i * p.d_line, s + i * p.s_line);
      }
    }
  }
}

__attribute__((noinline)) inline void copy_panels(const CopyPanels& p, int64_t bytes) {
  if (p.d_line == bytes && p.s_line == bytes && p.lines > 1) {
    for (int64_t k = 0; k < p.count; ++k)
      __builtin_memcpy(p.d + k * p.d_panel, p.s + k * p.s_panel, size_t(bytes * p.lines));
  } else if (bytes == 32) {
    copy_narrow_panels<32>(p);
  } else if (bytes == 64) {
    copy_narrow_panels<64>(p);
  } else if (bytes == 2) {
    copy_narrow_panels<2>(p);
  } else {
    for (int64_t i = 0; i < p.lines; ++i)
      for (int64_t k = 0; k < p.count; ++k) {
        char* d = p.d + i * p.d_line + k * p.d_panel;
        const char* s = p.s + i * p.s_line + k * p.s_panel;
        if (bytes <= 2048)
          copy_line(d, s, bytes);
        else
          __builtin_memcpy(d, s, size_t(bytes));
      }
  }
}

PTO_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <int B>
PTO_INLINE void copy_block(const CopyPanels& p, int64_t d_step, int64_t s_step, int64_t length) {
  if (d_step == B && s_step == B) {
    copy_panels(p, length * B);
  } else if (d_step == B && p.s_line == B) {
    for (int64_t k = 0; k < p.count; ++k)
      transpose_lines<B>(p.d + k * p.d_panel, p.d_line, p.s + k * p.s_panel, s_step, p.lines,
                         length);
  } else {
    for (int64_t k = 0; k < p.count; ++k)
      for (int64_t i = 0; i < p.lines; ++i)
        for (int64_t j = 0; j < length; ++j)
          copy_element<B>(p.d + k * p.d_panel + i * p.d_line + j * d_step,
                          p.s + k * p.s_panel + i * p.s_line + j * s_step);
  }
}

PTO_INLINE Matrix turned(const Matrix& m) {
  return {m.base, m.col, m.row, m.col_start, m.row_start};
}
// True where lines should run along the rows' axis: where the destination is contiguous, and the
// source too if there is a choice.
template <int B>
PTO_INLINE bool runs_along_rows(const Matrix& d, const Matrix& s) {
  const bool col = d.col->stride[0] == B, row = d.row->stride[0] == B;
  return row && (!col || (s.row->stride[0] == B && s.col->stride[0] != B));
}

PTO_INLINE bool is_plain(const CopyAxis& a, const CopyAxis& b) {
  return a.digits == 1 && b.digits == 1;
}
PTO_INLINE char* start_of(const Matrix& m) {
  return m.base + m.row_start * m.row->stride[0] + m.col_start * m.col->stride[0];
}

// Copies one block, in which nothing carries.
template <int B>
PTO_INLINE void copy_plain(const Matrix& d, const Matrix& s, int64_t rows, int64_t cols) {
  copy_block<B>({start_of(d), start_of(s), d.row->stride[0], s.row->stride[0], 0, 0, rows, 1},
                d.col->stride[0], s.col->stride[0], cols);
}
// Copies one block for all lines until a digit of the rows carries.
template <int B>
PTO_INLINE void copy_plain_lines(const Matrix& d, const Matrix& s, int64_t rows, int64_t cols) {
  char* const to = d.base + d.col_start * d.col->stride[0];
  const char* const from = s.base + s.col_start * s.col->stride[0];
  Cursor d_row(d.row, d.row_start), s_row(s.row, s.row_start);
  for (int64_t lines; rows > 0; rows -= lines, d_row.advance(lines), s_row.advance(lines)) {
    lines = least(rows, least(d_row.run(), s_row.run()));
    copy_block<B>(
        {to + d_row.offset, from + s_row.offset, d_row.stride(), s_row.stride(), 0, 0, lines, 1},
        d.col->stride[0], s.col->stride[0], cols);
  }
}

template <int B>
__attribute__((noinline)) void copy_pieces(const Matrix& d, const Matrix& s, int64_t rows,
                                           int64_t cols) {
  Cursor d_row(d.row, d.row_start), s_row(s.row, s.row_start);
  for (int64_t lines; rows > 0; rows -= lines) {
    lines = least(rows, least(d_row.run(), s_row.run()));
    Cursor d_col(d.col, d.col_start), s_col(s.col, s.col_start);
    for (int64_t left = cols, done; left > 0; left -= done) {
      const int64_t length = least(left, least(d_col.run(), s_col.run()));
      char* const to = d.base + d_row.offset + d_col.offset;
      const char* const from = s.base + s_row.offset + s_col.offset;
      CopyPanels p{to, from, d_row.stride(), s_row.stride(), 0, 0, lines, 0};
      p.count = least(left / length,
                      least(d_col.pieces(length, &p.d_panel), s_col.pieces(length, &p.s_panel)));
      copy_block<B>(p, d_col.stride(), s_col.stride(), length);
      done = p.count * length;
      d_col.advance(done);
      s_col.advance(done);
    }
    d_row.advance(lines);
    s_row.advance(lines);
  }
}

template <int B>
__attribute__((noinline)) void copy_along_cols(const Matrix& d, const Matrix& s, int64_t rows,
                                               int64_t cols) {
  if (!is_plain(*d.col, *s.col))
    copy_pieces<B>(d, s, rows, cols);
  else if (!is_plain(*d.row, *s.row))
    copy_plain_lines<B>(d, s, rows, cols);
  else
    copy_plain<B>(d, s, rows, cols);
}

// Computes d[i, j] = s[i, j] for rows x cols elements of B bytes. libpto holds it for each target,
// so that kernels do not compile it.
template <int B>
__attribute__((noinline)) void copy_matrix(const Matrix& d, const Matrix& s, int64_t rows,
                                           int64_t cols) {
  if (rows <= 0 || cols <= 0) return;
  if (runs_along_rows<B>(d, s))
    copy_along_cols<B>(turned(d), turned(s), cols, rows);
  else
    copy_along_cols<B>(d, s, rows, cols);
}

PTO_INLINE void copy_half(char* d, int64_t to, const char* s, int64_t from) {
  const int value = s[from / 2] >> (from % 2 * 4) & 15, shift = int(to % 2 * 4);
  d[to / 2] = char((d[to / 2] & ~(15 << shift)) | value << shift);
}
template <>
inline void copy_matrix<0>(const Matrix& d, const Matrix& s, int64_t rows, int64_t cols) {
  Cursor d_row(d.row, d.row_start), s_row(s.row, s.row_start);
  for (int64_t i = 0; i < rows; ++i, d_row.advance(1), s_row.advance(1)) {
    Cursor d_col(d.col, d.col_start), s_col(s.col, s.col_start);
    for (int64_t left = cols, n; left > 0; left -= n) {
      n = least(left, least(d_col.run(), s_col.run()));
      const int64_t to = d_row.offset + d_col.offset, from = s_row.offset + s_col.offset;
      const bool has_bytes =
          d_col.stride() == 1 && s_col.stride() == 1 && to % 2 == 0 && from % 2 == 0;
      if (has_bytes) __builtin_memmove(d.base + to / 2, s.base + from / 2, size_t(n / 2));
      for (int64_t j = has_bytes ? n - n % 2 : 0; j < n; ++j)
        copy_half(d.base, to + j * d_col.stride(), s.base, from + j * s_col.stride());
      d_col.advance(n);
      s_col.advance(n);
    }
  }
}

// The copy engine's size of elements that keep their bits.
template <class To, class From = To>
constexpr int kCopied = kIsTwin<To>&& kIsTwin<From> ? 0 : int(sizeof(To));

#define PTO_COPY_MATRIX(storage)                                                        \
  storage template void copy_matrix<1>(const Matrix&, const Matrix&, int64_t, int64_t); \
  storage template void copy_matrix<2>(const Matrix&, const Matrix&, int64_t, int64_t); \
  storage template void copy_matrix<4>(const Matrix&, const Matrix&, int64_t, int64_t); \
  storage template void copy_matrix<8>(const Matrix&, const Matrix&, int64_t, int64_t);
#ifndef PTO_CHECKED
PTO_COPY_MATRIX(extern)
#endif

// The axes of a tile's storage, whole boxes.
template <class D>
struct TileAxes {
  static constexpr int kBytes = int(sizeof(typename D::DType));
  static constexpr CopyAxis make(int inner, int boxes, int inner_stride, int box_stride) {
    return CopyAxis().add(inner, inner_stride * kBytes).add(boxes, int64_t(box_stride) * kBytes);
  }
  static constexpr CopyAxis row() {
    return make(D::InnerRows, D::kBoxRows,
                !D::isBoxedLayout    ? D::RowStride
                : D::isInnerRowMajor ? D::InnerCols
                                     : 1,
                !D::isBoxedLayout ? D::RowStride
                : D::isRowMajor   ? D::kBoxCols * D::InnerNumel
                                  : D::InnerNumel);
  }
  static constexpr CopyAxis col() {
    return make(D::InnerCols, D::kBoxCols,
                !D::isBoxedLayout    ? D::ColStride
                : D::isInnerRowMajor ? 1
                                     : D::InnerRows,
                !D::isBoxedLayout ? D::ColStride
                : D::isRowMajor   ? D::InnerNumel
                                  : D::kBoxRows * D::InnerNumel);
  }
};
template <class D>
inline constexpr CopyAxis kRowAxis = TileAxes<D>::row();
template <class D>
inline constexpr CopyAxis kColAxis = TileAxes<D>::col();

template <class T>
PTO_INLINE char* bytes_of(T* p) {
  return const_cast<char*>(reinterpret_cast<const volatile char*>(p));
}

template <class D>
PTO_INLINE Matrix matrix_of(const D& d, int64_t row = 0, int64_t col = 0) {
  return {bytes_of(d.data()), &kRowAxis<D>, &kColAxis<D>, row, col};
}

// Writes `value` to rows x cols elements of a tile from (row, col) on.
template <class D>
PTO_INLINE void fill_matrix(D& d, int64_t row, int64_t col, int64_t rows, int64_t cols,
                            typename D::DType value) {
  using T = typename D::DType;
  constexpr int kCount = 256 / int(sizeof(T));
  if (rows <= 0 || cols <= 0) return;
  if constexpr (kIsTwin<T>) value = T::FromRaw(uint8_t((value.RawData() & 15) * 17));
  alignas(64) T pattern[kCount];
  for (int i = 0; i < kCount; ++i) pattern[i] = value;
  CopyAxis along, across;
  along.add(kCount, sizeof(T)).add(kEndless / kCount, 0);
  across.add(kEndless, 0);
  constexpr bool kAlongRows = kColAxis<D>.stride[0] != int64_t(sizeof(T));
  copy_matrix<kCopied<T>>(
      matrix_of(d, row, col),
      {bytes_of(pattern), kAlongRows ? &along : &across, kAlongRows ? &across : &along}, rows,
      cols);
}

// Fills everything outside the first rows x cols elements, boxes to their end included.
template <class D>
PTO_INLINE void fill_outside(D& d, int64_t rows, int64_t cols, typename D::DType value) {
  constexpr int64_t kAllRows = D::kBoxRows * D::InnerRows, kAllCols = D::kBoxCols * D::InnerCols;
  if (rows <= 0 || cols <= 0) rows = cols = 0;
  fill_matrix(d, 0, cols, rows, kAllCols - cols, value);
  fill_matrix(d, rows, 0, kAllRows - rows, kAllCols, value);
}

}  // namespace moves
PTO_NAMESPACE_END
