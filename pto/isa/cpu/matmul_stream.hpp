// SPDX-License-Identifier: Apache-2.0
// Matmul stream: products of a few rows of floats, whose time is that of reading b once, where it
// lies. Rows of b pass a few at a time, in long runs, which a CPU prefetches, beside sums that stay
// in the second cache; columns of b (rows of a weight) pass eight at a time and are turned in
// registers.
//
//     const bool is_done = Stream(job).run();   // false: not for these sizes or this layout
//
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/matmul_place.hpp"
#include "pto/isa/cpu/matmul_turned.hpp"
#include "pto/isa/cpu/of_thread.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kStreamRows = 16;         // of a
constexpr int kStreamPackedRows = 96;   // of a, where columns of b become panels
constexpr int kStreamFrom = 4 << 10;    // units of b for the square of the rows
constexpr int kStreamFar = 2 << 20;     // units of a b that no near cache holds
constexpr int kSwept = 3;               // rows of a whose elements stay in registers
constexpr int kStreamDepth = 16;        // rows of b that pass at once
constexpr int kStreamUnits = 32 << 10;  // sums that stay in the second cache

// Up to three rows of a by some rows of b: the elements of a stay in registers while the columns
// pass.
template <int Rows>
struct Swept {
  static constexpr int kDepth = Rows == 1 ? 6 : 4;  // rows of b: eight may share a cache set
  using Sum = FloatDot::Sum;
  using All = typename IndicesTo<Rows * kDepth>::type;

  template <int... I>
  static PTO_INLINE void add(Indices<I...>, Sum* sum, const Units* left, const char* b,
                             int64_t b_row) {
    const Units right[] = {FloatDot::load(b + I % kDepth * b_row)...};
    ((sum[I / kDepth] = FloatDot::add(sum[I / kDepth], left[I], right[I])), ...);
  }

  // `from` and `to` are rows of sums; from may be null. `asks`: for the rows of b behind these.
  template <bool asks>
  static void run(const int32_t* a, int64_t a_row, const int32_t* b, int64_t b_row, int vectors,
                  const Outputs& sums) {
    Units left[Rows * kDepth];
    PTO_UNROLL
    for (int i = 0; i < Rows * kDepth; ++i)
      left[i] = lanes::splat<Units>(uint32_t(a[i / kDepth * a_row + i % kDepth]));
    const char* from = sums.from[0];
    char* to = sums.to[0];
    for (int v = 0; v < vectors; ++v, b += kLane, to += kVectorBytes) {
      Sum sum[Rows] = {};
      PTO_UNROLL
      for (int k = 0; asks && k < kDepth; ++k) __builtin_prefetch(b + (k + kDepth) * b_row, 0, 2);
      PTO_UNROLL
      for (int r = 0; r < Rows && from; ++r)
        __builtin_memcpy(&sum[r], from + r * sums.from_stride, sizeof(Sum));
      add(All(), sum, left, reinterpret_cast<const char*>(b), b_row * 4);
      PTO_UNROLL
      for (int r = 0; r < Rows; ++r)
        __builtin_memcpy(to + r * sums.to_stride, &sum[r], sizeof(Sum));
      if (from) from += kVectorBytes;
    }
  }
};

// Rows of sums, at distances that are no multiple of a page.
struct StreamSums {
  int32_t at[kStreamUnits + kStreamPackedRows * 2 * kLineUnits];
};

// Returns the place of sums of so many vectors of columns.
inline Place stream_sums(int rows, int vectors) {
  const int lines = quotient_up(vectors * kLane, kLineUnits) | 1;
  const pto_matmul_matrix sums = {of_thread<StreamSums>().at,
                                  PTO_MATMUL_F32,
                                  PTO_MATMUL_UNBOXED,
                                  PTO_MATMUL_UNBOXED,
                                  0,
                                  0,
                                  lines * int64_t{kLineUnits},
                                  1};
  return {sums, rows, vectors * kLane};
}

class Stream {
 public:
  explicit Stream(const pto_matmul_job& job)
      : job_(job), to_(job.c, job.rows, job.cols), from_(job.start, job.rows, job.cols) {}

  // True where the loops over panels are slower. Those for AVX-512 read rows of a near b in place,
  // and two of their slivers share panels while the first cache has them.
  static bool pays(const pto_matmul_job& job) {
    const int64_t units = job.depth * int64_t{job.cols};
    if (kVectorBytes == 64 && job.rows > kSwept &&
        has_float_rows(job.b, job.b_scale, job.depth, job.cols))
      return job.rows <= kRows && units > kStreamFar;
    return units > job.rows * int64_t{job.rows} * kStreamFrom;
  }

  // Writes the outputs, or nothing.
  bool run() const {
    if (job_.rows > kStreamRows || job_.packed || job_.bias.data) return false;
    if (job_.depth <= 0 || !is_plain(to_)) return false;
    if (job_.start.data && !is_plain(from_)) return false;
    if (!has_float_rows(job_.a, job_.a_scale, job_.rows, job_.depth)) return false;
    if (has_float_rows(job_.b, job_.b_scale, job_.depth, job_.cols))
      by_rows();
    else if (kLane >= kGroup && job_.rows <= kRows &&
             has_float_rows(turned(job_.b), job_.b_scale, job_.cols, job_.depth))
      by_columns();
    else
      return false;
    return true;
  }

 private:
  // Rows of a that are multiplied together.
  struct Sliver {
    int row, rows;
  };
  // Units of the depth.
  struct Run {
    int k, units;
  };
  // Panels of b beside each other.
  struct Panels {
    int vectors, count;
  };

  bool is_plain(const Place& place) const { return place.is_plain(job_.rows, job_.cols); }

  const int32_t* left_at(int row, int k) const {
    return static_cast<const int32_t*>(job_.a.data) + row * job_.a.row_stride + k;
  }
  const int32_t* right_at(int k, int col) const {
    return static_cast<const int32_t*>(job_.b.data) + k * job_.b.row_stride + col;
  }

  // Packs the columns beyond the last whole vectors, a piece of the depth at a time, and multiplies
  // by them.
  void rest(int first) const {
    constexpr int kPanel = kVectors * kLane, kPiece = 64;
    int32_t panel[kPiece * kPanel], sums[kStreamRows * kPanel] = {};
    for (int col = first; col < job_.cols; col += kPanel) {
      const int count = smaller(job_.cols - col, kPanel);
      for (int row = 0; row < job_.rows && job_.start.data; ++row)
        from_.read(sums + row * kPanel, row, col, count);
      for (int k = 0; k < job_.depth; k += kPiece) {
        const int units = smaller(job_.depth - k, kPiece);
        pack_right<float>(job_, panel, {col, count, kPanel, k, units});
        const Place to(
            {sums, PTO_MATMUL_F32, PTO_MATMUL_UNBOXED, PTO_MATMUL_UNBOXED, 0, 0, kPanel, 1},
            job_.rows, kPanel);
        const bool is_first = k == 0 && !job_.start.data;
        for (int s = 0; s < slivers(); ++s)
          multiply({k, units}, panel, kPanel, {quotient_up(count, kLane), 1}, sliver(s),
                   outputs(to, is_first ? nullptr : &to, sliver(s).row, 0, kVectors));
      }
      for (int row = 0; row < job_.rows; ++row) to_.write(sums + row * kPanel, row, col, count);
    }
  }

  void by_rows() const {
    const int whole = job_.cols / kLane, most = kStreamUnits / kLane / job_.rows;
    const int step = job_.rows == 1        ? Swept<1>::kDepth
                     : job_.rows <= kSwept ? Swept<3>::kDepth
                                           : kStreamDepth;
    const auto passing = [&](int first, int k) -> Passing {
      if (first >= whole) return {};
      return {first * kLane, smaller(whole - first, most), k, smaller(job_.depth - k, step)};
    };
    for (int first = 0; first < whole; first += most) {
      const Place start = from_col(from_, first * kLane), end = from_col(to_, first * kLane);
      const Place sums = stream_sums(job_.rows, passing(first, 0).vectors);
      for (int k = 0; k < job_.depth; k += step) {
        const bool is_last = k + step >= job_.depth;
        const Place* const from = k > 0 ? &sums : job_.start.data ? &start : nullptr;
        pass(passing(first, k), is_last ? passing(first + most, 0) : passing(first, k + step), from,
             is_last ? end : sums);
      }
    }
    rest(whole * kLane);
  }

  static Place from_col(const Place& place, int col) {
    Place part = place;
    if (part.data) part.data = place.at(0, col);
    return part;
  }
  // Some rows of b: vectors of columns from `col` on, units of depth from `k` on.
  struct Passing {
    int col, vectors, k, units;
  };

  // Adds the products of some rows of b, after which others pass; from and to begin at their first
  // column.
  void pass(const Passing& b, const Passing& next, const Place* from, const Place& to) const {
    if (job_.rows == 1 && b.units == Swept<1>::kDepth) return sweep<1>(b, from, to);
    if (job_.rows == 2 && b.units == Swept<2>::kDepth) return sweep<2>(b, from, to);
    if (job_.rows == 3 && b.units == Swept<3>::kDepth) return sweep<3>(b, from, to);
    // While a run of each of these rows of b is multiplied, the same run of the rows that follow is
    // asked for, one row at a time: memory gives long runs faster than many short ones at once.
    const int panels = quotient_up(b.vectors, kVectors);
    for (int turn = 0; turn < b.units; ++turn) {
      const int first = share(panels, turn, b.units), last = share(panels, turn + 1, b.units);
      for (int s = 0; s < slivers() && first < last; ++s) {
        Soon soon = {};
        if (turn < next.units) {
          const int64_t bytes = int64_t{next.vectors} * kVectorBytes / slivers();
          soon = {reinterpret_cast<const char*>(right_at(next.k + turn, next.col)) + s * bytes,
                  quotient_up(int(bytes), (last - first) * b.units), 0};
        }
        add(b, from, to, {first * kVectors, smaller(last * kVectors, b.vectors)}, sliver(s), soon);
      }
    }
  }
  template <int Rows>
  void sweep(const Passing& b, const Place* from, const Place& to) const {
    const bool is_far = job_.depth * int64_t{job_.cols} > kStreamFar;
    const auto run = is_far ? Swept<Rows>::template run<true> : Swept<Rows>::template run<false>;
    run(left_at(0, b.k), job_.a.row_stride, right_at(b.k, b.col), job_.b.row_stride, b.vectors,
        outputs(to, from, 0, 0, 1));
  }
  // From the first one to before the last one.
  struct Vectors {
    int first, last;
  };
  void add(const Passing& b, const Place* from, const Place& to, Vectors part, const Sliver& of,
           const Soon& soon) const {
    for (int first = part.first; first < part.last;) {
      const int vectors = smaller(part.last - first, kVectors);
      const int panels = (part.last - first) / vectors;
      Outputs sums = outputs(to, from, of.row, first * kLane, vectors);
      sums.soon = soon;
      multiply({b.k, b.units}, right_at(b.k, b.col + first * kLane), job_.b.row_stride,
               {vectors, panels}, of, sums);
      first += panels * vectors;
    }
  }

  int slivers() const { return quotient_up(job_.rows, kRows); }
  Sliver sliver(int number) const {
    const int row = share(job_.rows, number, slivers());
    return {row, share(job_.rows, number + 1, slivers()) - row};
  }
  // Multiplies some units of a sliver by panels of b, whose units lie `b_unit` columns apart.
  void multiply(Run depth, const int32_t* right, int64_t b_unit, Panels b, const Sliver& of,
                const Outputs& sums) const {
    InPlaceKernel<FloatDot>::get(of.rows, b.vectors)(
        {{left_at(of.row, depth.k), right, depth.units, 1, 0},
         job_.a.row_stride,
         kGroup,
         b_unit,
         b.count,
         0,
         nullptr},
        sums);
  }

  template <int Rows>
  int turn(Indices<Rows>) const {
    using T = Turned<Rows + 1>;
    const int64_t col = job_.b.col_stride;
    const auto* const b = static_cast<const float*>(job_.b.data);
    int first = 0;
    for (; first + T::kCols <= job_.cols; first += T::kCols)
      T::run(typename T::All(),
             {left_at(0, 0), job_.a.row_stride, reinterpret_cast<const char*>(b + first * col),
              col * 4, job_.depth},
             {job_.start.data ? from_.at(0, first) : nullptr, from_.rows.stride},
             {to_.at(0, first), to_.rows.stride}, AskAhead());
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
