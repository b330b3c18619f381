// SPDX-License-Identifier: Apache-2.0
// Matmul stream: products of a few rows of floats, whose time is that of reading b once, where it
// lies. Rows of b pass a few at a time beside outputs that stay in the first cache; columns of b
// (rows of a weight) pass eight at a time and are turned in registers.
//
//     const bool is_done = job.rows <= kRows && Stream(job).run();   // false: not for this layout
//
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kStreamDepth = 8;        // rows of b that pass at once, which a CPU prefetches
constexpr int kStreamUnits = 4 << 10;  // outputs that stay in the first cache
constexpr int kStreamAhead = 256;      // units of a row of b to prefetch, where it is long
constexpr int kTurnedAhead = 64;       // floats of a column of b to prefetch

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
    if (has_vectors && cols.box > col + count)
      __builtin_memcpy(part, vector(row, col), size_t(count) * sizeof(Word));
    else
      for (int j = 0; j < count; ++j) part[j] = *at(row, col + j);
  }
  void write(const Word* part, int row, int col, int count) const {
    if (has_vectors && cols.box > col + count)
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

// True where floats of each row lie together and count as they are.
inline bool has_float_rows(const pto_matmul_matrix& m, const pto_matmul_matrix& scales, int rows,
                           int cols) {
  return m.type == PTO_MATMUL_F32 && m.col_stride == 1 && !scales.data && m.box_cols >= cols &&
         m.box_rows >= rows;
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

// Makes `Rows` outputs of two vectors of columns from columns of b that lie `b_col` floats apart.
template <int Rows>
struct Turned {
  static constexpr int kWide = 2;
  static constexpr int kCols = kWide * kLane;
  using Sum = FloatDot::Sum;
  using All = typename IndicesTo<Rows * kWide>::type;
  using Down = typename IndicesTo<Rows>::type;

  // Loads eight units of kLane columns, a vector a unit; prefetches those `ahead` floats on.
  static PTO_INLINE void load(const float* b, int64_t b_col, int64_t ahead, Units* to) {
    constexpr int kParts = kLane / kGroup;
    Group v[kParts][kGroup];
    for (int part = 0; part < kParts; ++part) {
      PTO_UNROLL
      for (int i = 0; i < kGroup; ++i) {
        const float* const column = b + (part * kGroup + i) * b_col;
        __builtin_prefetch(column + ahead, 0, 2);  // the first cache may keep too few
        v[part][i] = bit_cast<Group>(lanes::load<kGroup>(column));
      }
      transpose(v[part]);
    }
    PTO_UNROLL
    for (int i = 0; i < kGroup; ++i) {
      if constexpr (kParts == 1)
        to[i] = bit_cast<Units>(v[0][i]);
      else
        __builtin_memcpy(&to[i], &v[0][i], sizeof(Group)),
            __builtin_memcpy(reinterpret_cast<char*>(&to[i]) + sizeof(Group), &v[1][i],
                             sizeof(Group));
    }
  }

  // Adds the products of one unit to the sums of column group G.
  template <int G, int... R>
  static PTO_INLINE void step(Indices<R...>, Sum* sum, const int32_t* a, int64_t a_row, Units b) {
    ((sum[R * kWide + G] =
          FloatDot::add(sum[R * kWide + G], lanes::splat<Units>(uint32_t(a[R * a_row])), b)),
     ...);
  }
  // Units that share cache lines follow each other: columns may lie 4 KB apart, where eight lines
  // are all that the first cache keeps.
  template <int G>
  static PTO_INLINE void line(Sum* sum, const int32_t* a, int64_t a_row, const float* b,
                              int64_t b_col, int64_t ahead) {
    for (int part = 0; part < kLineUnits; part += kGroup) {
      Units units[kGroup];
      load(b + G * kLane * b_col + part, b_col, ahead, units);
      PTO_UNROLL
      for (int u = 0; u < kGroup; ++u) step<G>(Down(), sum, a + part + u, a_row, units[u]);
    }
  }
  template <int G>
  static PTO_INLINE void one(Sum* sum, const int32_t* a, int64_t a_row, const float* b,
                             int64_t b_col) {
    Units unit;
    for (int i = 0; i < kLane; ++i) unit[i] = bit_cast<uint32_t>(b[(G * kLane + i) * b_col]);
    step<G>(Down(), sum, a, a_row, unit);
  }

  template <int... I>
  static PTO_INLINE void run(Indices<I...>, const int32_t* a, int64_t a_row, const float* b,
                             int64_t b_col, int depth, const int32_t* from, int32_t* to,
                             int64_t from_row, int64_t to_row) {
    Sum sum[Rows * kWide];
    if (from)
      ((sum[I] = bit_cast<Sum>(
            *reinterpret_cast<const LooseUnits*>(from + I / kWide * from_row + I % kWide * kLane))),
       ...);
    else
      ((sum[I] = Sum{}), ...);
    int k = 0;
    for (; k + kLineUnits <= depth; k += kLineUnits) {
      // Behind the end of these columns lie the next ones.
      const bool is_within = k + kTurnedAhead < depth;
      const int64_t ahead = kTurnedAhead + (is_within ? 0 : kCols * b_col - depth);
      line<0>(sum, a + k, a_row, b + k, b_col, ahead);
      line<1>(sum, a + k, a_row, b + k, b_col, ahead);
    }
    for (; k < depth; ++k) {
      one<0>(sum, a + k, a_row, b + k, b_col);
      one<1>(sum, a + k, a_row, b + k, b_col);
    }
    ((*reinterpret_cast<LooseUnits*>(to + I / kWide * to_row + I % kWide * kLane) =
          bit_cast<Units>(sum[I])),
     ...);
  }
};

class Stream {
 public:
  explicit Stream(const pto_matmul_job& job)
      : job_(job), to_(job.c, job.rows, job.cols), from_(job.start, job.rows, job.cols) {}

  // Writes the outputs, or nothing.
  bool run() const {
    if (job_.packed || job_.bias.data || job_.depth <= 0 || !is_plain(to_)) return false;
    if (job_.start.data && !is_plain(from_)) return false;
    if (!has_float_rows(job_.a, job_.a_scale, job_.rows, job_.depth)) return false;
    if (has_float_rows(job_.b, job_.b_scale, job_.depth, job_.cols))
      by_rows();
    else if (kLane >= kGroup && has_float_rows(turned(job_.b), job_.b_scale, job_.cols, job_.depth))
      by_columns();
    else
      return false;
    return true;
  }

 private:
  bool is_plain(const Place& place) const { return place.is_plain(job_.rows, job_.cols); }

  static pto_matmul_matrix turned(const pto_matmul_matrix& m) {
    return {m.data,           m.type,           m.box_cols,   m.box_rows,
            m.box_col_stride, m.box_row_stride, m.col_stride, m.row_stride};
  }

  const int32_t* left_at(int k) const { return static_cast<const int32_t*>(job_.a.data) + k; }

  // Columns beyond the last whole vector are computed one by one.
  void rest(int first) const {
    const auto *a = static_cast<const float*>(job_.a.data),
               *b = static_cast<const float*>(job_.b.data);
    for (int row = 0; row < job_.rows; ++row)
      for (int col = first; col < job_.cols; ++col) {
        using One = Vec<float, 4>;
        const float start = job_.start.data ? bit_cast<float>(*from_.at(row, col)) : 0;
        One sum = lanes::splat<One>(start);
        for (int k = 0; k < job_.depth; ++k)
          sum = multiply_add(lanes::splat<One>(a[row * job_.a.row_stride + k]),
                             lanes::splat<One>(b[k * job_.b.row_stride + col * job_.b.col_stride]),
                             sum);
        *to_.at(row, col) = bit_cast<int32_t>(float(sum[0]));
      }
  }

  void by_rows() const {
    const int whole = job_.cols / kLane, most = kStreamUnits / kLane / job_.rows;
    for (int first = 0; first < whole; first += most) {
      const int last = smaller(whole, first + most);
      for (int k = 0; k < job_.depth; k += kStreamDepth)
        pass(first, last, k, smaller(job_.depth - k, kStreamDepth));
    }
    rest(whole * kLane);
  }

  // Adds the products of some rows of b to the outputs of some vectors of columns.
  void pass(int first, int last, int k, int units) const {
    const Place* const from = k > 0 ? &to_ : job_.start.data ? &from_ : nullptr;
    const int64_t b_unit = job_.b.row_stride;
    const auto* const b = static_cast<const int32_t*>(job_.b.data) + k * b_unit;
    // Short rows end before what is read next: the same place of the next rows.
    const int64_t ahead = job_.cols > kStreamAhead ? kStreamAhead : kStreamDepth * b_unit;
    for (int vectors = kVectors; first < last; vectors = last - first) {
      const int panels = (last - first) / vectors;
      if (panels == 0) continue;
      const InPlace in = {{left_at(k), b + first * kLane, units, 1, 0},
                          job_.a.row_stride,
                          kGroup,
                          b_unit,
                          panels,
                          ahead,
                          nullptr};
      InPlaceKernel<FloatDot>::get(job_.rows, vectors)(
          in, outputs(to_, from, 0, first * kLane, vectors));
      first += panels * vectors;
    }
  }

  template <int Rows>
  int turn(Indices<Rows>) const {
    using T = Turned<Rows + 1>;
    const int64_t col = job_.b.col_stride;
    const auto* const b = static_cast<const float*>(job_.b.data);
    int first = 0;
    for (; first + T::kCols <= job_.cols; first += T::kCols)
      T::run(typename T::All(), left_at(0), job_.a.row_stride, b + first * col, col, job_.depth,
             job_.start.data ? from_.at(0, first) : nullptr, to_.at(0, first), from_.rows.stride,
             to_.rows.stride);
    return first;
  }
  template <int... I>
  int turn_rows(Indices<I...>) const {
    int done = 0;
    ((I + 1 == job_.rows ? void(done = turn(Indices<I>())) : void()), ...);
    return done;
  }
  void by_columns() const {
    if constexpr (kLane >= kGroup) rest(turn_rows(typename IndicesTo<kRows>::type()));
  }

  const pto_matmul_job& job_;
  const Place to_, from_;
};

}  // namespace matmul
PTO_NAMESPACE_END
