// SPDX-License-Identifier: Apache-2.0
// Matmul stream packed: products of a few rows, whose time is that of reading b once, by a b of
// bytes or bf16. Rows of b pass some at a time, in long runs, which memory gives fastest, beside
// sums that stay in the second cache. By a few rows of a, eight of them are woven in registers;
// else columns of 64 become panels in the first cache while the first rows of a are multiplied.
//
//     const bool is_done = PackedStream<PairDot<int8_t>, int8_t>(job, pack_left).run();
//
// It is false for sizes or layouts that are not for it.
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack_bytes.hpp"
#include "pto/isa/cpu/matmul_place.hpp"
#include "pto/isa/cpu/matmul_requests.hpp"
#include "pto/isa/cpu/matmul_stream.hpp"
#include "pto/isa/cpu/matmul_stream_woven.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// T: the type of b's elements, of which two or four below each other make a unit. Quads multiply
// bytes without a sign by signed ones: then b gets 128 more, which the sums lack at first.
template <class Dot, class T>
class PackedStream {
  using Sum = typename Dot::Sum;
  static constexpr int kPerUnit = Dot::kPerUnit, kDepth = 64;  // rows of b that pass at once
  static constexpr int kUnits = kDepth / kPerUnit;
  using Woven = WovenRows<Dot, T>;
  using Right = typename Woven::Right;
  static constexpr bool kBoxed = Woven::kBoxed;
  // A tile of sums: rows at most, by few rows of a and by more, and vectors.
  static constexpr int kHigh = kRows < 6 ? kRows : 6, kLow = 4, kWide = kBoxed ? 4 : kVectors;
  static constexpr int kHighRows = 32;
  static constexpr int kPanelCols = kWide * kLane;
  static constexpr int64_t kUnitBytes = int64_t{kPanelCols} * Dot::kRightBytes;
  static constexpr int64_t kPanelBytes = kUnits * kUnitBytes;
  // Panels of less than a line of b are packed some at once: the lines of rows that lie far apart
  // share a place in the first cache.
  static constexpr bool kFuses = kPanelCols * int(sizeof(T)) >= kLineBytes;
  static constexpr int kAbreast = kFuses ? 1 : 4 * kLineBytes / int(sizeof(T)) / kPanelCols;
  static constexpr int kExcess = Woven::kExcess;
  // Narrower ones, and smaller ones, are no slower by the loops over panels.
  static constexpr int kLeastCols = sizeof(T) == 1 ? 64 : 256;
  static constexpr int64_t kLeast = 4 << 10;  // elements of b
  static constexpr int64_t kFar = 1 << 20;    // from which it is not near
  static constexpr int kFirst = 16;  // rows of b that pass first where nobody asked for them
  static constexpr int64_t kSoonBytes = 256 << 10;
  // By few rows of a, few rows of b pass at once, and nothing of them is written: a store queue
  // holds fewer lines than memory gives at a time. They stay in the first cache with those behind
  // them. Sums fit the registers.
  static constexpr int kSweptRows = kPerUnit == 4 ? 5 : 8;
  static constexpr int kSwept = 8;  // rows of b, or half as many
  static constexpr int64_t kSweptBytes = 32 << 10;
  static constexpr int kSweptCols = 2 * kSweptBytes / kSwept / int(sizeof(T));
  static constexpr int64_t kSweptRun = 1 << 10;  // the least of a row, where others lie between

 public:
  PackedStream(const pto_matmul_job& job, Pack left)
      : job_(job),
        left_(left),
        to_(job.c, job.rows, job.cols),
        is_narrow_(job.c.type == PTO_MATMUL_BF16),
        b_row_(job.b.row_stride) {}

  // Writes the outputs, or nothing.
  bool run() {
    if (job_.rows > most_rows() || job_.packed || job_.packs || job_.bias.data) return false;
    if (job_.cols < kLeastCols || int64_t{job_.depth} * job_.cols < kLeast) return false;
    if (job_.start.data || !fits_outputs()) return false;
    if (!has_rows(job_.b, job_.b_scale, job_.depth, job_.cols)) return false;
    if (kExcess > 0) {
      if (job_.a.type != PTO_MATMUL_I8 || !has_rows(job_.a, job_.a_scale, job_.rows, job_.depth))
        return false;
      take_excess();
    }
    const bool is_whole = b_row_ == job_.cols;
    const bool sweeps = kBoxed && job_.rows <= kSweptRows &&
                        (is_whole || job_.cols * int64_t(sizeof(T)) >= kSweptRun);
    const int panels = job_.cols / kPanelCols;
    const int cols = kStreamUnits / job_.rows;
    const int most = (sweeps ? smaller(kSweptCols, cols) : cols) / kPanelCols;
    const int units = quotient_up(job_.depth, kPerUnit);
    const int turns = sweeps ? units : quotient_up(units, kGroup) * slivers();  // of a panel
    const int64_t all = int64_t{panels} * turns * parts_of(job_);
    Requests asked = {{nullptr, 0, 0}, {is_near(job_.soon) ? job_.soon : nullptr, 0, all}};
    for (int first = 0; first < panels; first += most) {
      const Range block = {first, smaller(panels, first + most)};
      int k = sweeps ? sweep(block, {block.last, smaller(panels, block.last + most)}, asked) : 0;
      int depth = first == 0 && k == 0 && !job_.is_asked ? ask_first(block) : kDepth;
      for (; k < job_.depth; k += depth, depth = kDepth) pass(block, k, depth, asked);
    }
    if (const int done = panels * kPanelCols; done < job_.cols) rest(done);
    if (is_near(job_.soon)) *job_.soon = asked.next.rest();
    return true;
  }

 private:
  // Panels from the first one to before the last one.
  struct Range {
    int first, last;
    int count() const { return last - first; }
  };
  // Rows of b from k on, and their units.
  struct Depth {
    int k, rows, units;
  };
  // Sums of a tile in front of some units (null: what its rows begin with) and behind them.
  struct Sums {
    const char* from;
    char* to;
    int64_t from_row, to_row;  // bytes
    bool is_last;              // to c
  };
  // Quads take b from far twice as fast as the loops over panels, which copy it to the second cache
  // first; those of a near one gain less.
  int most_rows() const {
    constexpr int kNearRows = 32, kPairRows = 28;
    if (kPerUnit < 4) return kReadsRows<Dot> ? kPairRows : kStreamRows;
    return int64_t{job_.depth} * job_.cols < kFar ? kNearRows : kStreamPackedRows;
  }
  bool fits_outputs() const {
    if (!to_.is_plain(job_.rows, job_.cols)) return false;
    if (is_narrow_) return kReadsRows<Dot>;
    return job_.c.type == PTO_MATMUL_F32 || job_.c.type == PTO_MATMUL_I32;
  }
  int slivers() const { return quotient_up(job_.rows, job_.rows > kHighRows ? kLow : kHigh); }
  SliverRows rows(int sliver) const {
    const int begin = share(job_.rows, sliver, slivers());
    return {begin, share(job_.rows, sliver + 1, slivers()) - begin};
  }

  // Finds what the excess of b adds to each row of sums.
  void take_excess() {
    for (int r = 0; r < job_.rows; ++r) {
      const auto* const row = static_cast<const int8_t*>(job_.a.data) + r * job_.a.row_stride;
      int32_t sum = 0;
      for (int k = 0; k < job_.depth; ++k) sum += row[k];
      begin_[r] = -kExcess * sum;
    }
  }

  // Packs the units of a, so many rows of b deep; returns how many there are.
  int pack_left(int k, int depth) {
    const int units = quotient_up(smaller(depth, job_.depth - k), kPerUnit);
    for (int s = 0; s < slivers(); ++s) {
      const SliverRows r = rows(s);
      left_(job_, a_ + r.begin * kUnits, {r.begin, r.count, r.count, k, units});
    }
    return units;
  }

  const T* right_at(int k, int panel) const {
    return static_cast<const T*>(job_.b.data) + k * b_row_ + panel * kPanelCols;
  }
  // Some rows of b, from row k on.
  pto_runs runs(const Range& block, int k, int count) const {
    return {right_at(k, block.first),
            b_row_ * int64_t(sizeof(T)),
            block.count() * kPanelCols * int64_t(sizeof(T)),
            smaller(job_.depth - k, count),
            nullptr,
            0,
            0};
  }
  // Asks at once for the rows that pass first, and returns how many: few, so that memory soon works
  // beside the products.
  int ask_first(const Range& block) const {
    const pto_runs first = runs(block, 0, kFirst);
    const Lines lines(&first, kFirst, 0);
    return kFirst;
  }
  // True of what the second cache holds beside the operands.
  static bool is_near(const pto_runs* soon) {
    return soon && soon->bytes * soon->count <= kSoonBytes;
  }
  // Adds the products of `depth` rows of b, and asks for those that follow.
  void pass(const Range& block, int k, int depth, Requests& asked) {
    const int units = pack_left(k, depth);
    const pto_runs next = runs(block, k + depth, job_.is_asked ? 0 : kDepth);
    asked.own = Lines(&next, 0, int64_t{block.count()} * quotient_up(units, kGroup) * slivers());
    for (int first = block.first; first < block.last; first += kAbreast) {
      const Range panels = {first, smaller(block.last, first + kAbreast)};
      if (!kFuses) pack(panels, k, units);
      multiply(block, panels, {k, smaller(job_.depth - k, depth), units}, asked);
    }
  }

  // Adds the products of all rows of b but the last few; returns how many. `next`: the block behind
  // this one.
  int sweep(const Range& block, const Range& next, Requests& asked) {
    const bool are_long = kSwept * bytes_of(block) > kSweptBytes;
    const int at_once = are_long ? kSwept / 2 : kSwept, end = job_.depth / at_once * at_once;
    for (int k = 0; k < end; k += kDepth) {
      const int units = smaller(end - k, kDepth) / kPerUnit;
      left_(job_, a_, {0, job_.rows, job_.rows, k, units});
      for (int u = 0; u < units; u += at_once / kPerUnit) {
        const int at = k + u * kPerUnit, behind = at + at_once;
        sweep(typename IndicesTo<kSweptRows>::type(), block, {at, at_once, at_once / kPerUnit},
              a_ + u / kGroup * kGroup * job_.rows + u % kGroup,
              behind < end       ? next_rows(block, behind, at_once)
              : next.count() > 0 ? next_rows(next, 0, at_once)
              : comes_next()     ? NextRows(*job_.soon)
                                 : next_rows(block, at, at_once),
              asked);
      }
    }
    return end;
  }
  bool comes_next() const { return job_.soon && job_.soon->data && job_.soon->count > 0; }
  static int64_t bytes_of(const Range& block) {
    return block.count() * kPanelCols * int64_t(sizeof(T));
  }
  NextRows next_rows(const Range& block, int k, int count) const {
    return {right_at(k, block.first), b_row_ * int64_t(sizeof(T)), bytes_of(block), count};
  }
  template <int... I>
  void sweep(Indices<I...>, const Range& block, const Depth& depth, const int32_t* a,
             const NextRows& rows, Requests& asked) {
    ((I + 1 == job_.rows ? sweep<I + 1>(block, depth, a, rows, asked) : void()), ...);
  }
  template <int N>
  void sweep(const Range& block, const Depth& depth, const int32_t* a, NextRows rows,
             Requests& asked) {
    if constexpr (kBoxed) {
      constexpr int kWide = Woven::kWide, kCols = Woven::kOnce;
      const Place place = stream_sums(job_.rows, block.count() * PackedStream::kWide);
      const int64_t row = place.rows.stride * 4;
      const bool is_last = depth.k + depth.rows == job_.depth, asks = is_near(job_.soon);
      const T* b = right_at(depth.k, block.first);
      for (int col = 0; col < block.count() * kPanelCols; col += kCols, b += kCols) {
        rows.ask(depth.rows);
        char* const at = place.vector(0, col);
        Sums of = {depth.k > 0 ? at : nullptr, at, row, row, is_last};
        if (is_last) of.to = output(0, block.first * kPanelCols + col), of.to_row = output_row();
        Sum sum[N * kWide];
        begin<N, kWide>(typename IndicesTo<N * kWide>::type(), sum, of, 0);
        for (int u = 0; u < depth.units; ++u) {
          if (asks && col % kPanelCols == 0) asked.next.take_turn();
          Woven::weave({b + u * kPerUnit * b_row_, b_row_, kPerUnit},
                       typename Woven::template ToSums<N>{sum, a + u});
        }
        if (is_last) Woven::template order<N, kWide>(sum);
        end<N, kWide>(typename IndicesTo<N * kWide>::type(), sum, of);
      }
    }
  }

  // Packs runs of rows, as many at a time as a unit has.
  void pack(const Range& panels, int k, int units) {
    const T* from = right_at(k, panels.first);
    for (int u = 0; u < units; ++u, from += kPerUnit * b_row_) {
      char* to = b_ + u * kUnitBytes;
      for (int p = 0; p < panels.count(); ++p, to += kPanelBytes)
        pack_unit(to, {from + p * kPanelCols, b_row_, job_.depth - k - u * kPerUnit});
    }
  }
  // Packs the units of a panel from rows below each other, zeros below the last one.
  static PTO_INLINE void pack_unit(char* to, const Right& from) {
    PTO_UNROLL
    for (int first = 0; first < kPanelCols; first += Woven::kOnce)
      Woven::weave({from.at + first, from.row, from.rows},
                   typename Woven::ToPanel{to + first * Dot::kRightBytes});
  }

  void multiply(const Range& block, const Range& panels, const Depth& depth, Requests& asked) {
    const Place place = stream_sums(job_.rows, block.count() * kWide);
    for (int p = 0; p < panels.count(); ++p) {
      const int panel = panels.first + p, at = (panel - block.first) * kPanelCols;
      const Right right = {right_at(depth.k, panel), b_row_, depth.rows};
      for (int s = 0; s < slivers(); ++s) {
        const SliverRows r = rows(s);
        char* const sums = place.vector(r.begin, at);
        const int64_t row = place.rows.stride * 4;
        Sums of = {depth.k > 0 ? sums : nullptr, sums, row, row,
                   depth.k + depth.rows == job_.depth};
        if (of.is_last) of.to = output(r.begin, panel * kPanelCols), of.to_row = output_row();
        add(r, b_ + p * kPanelBytes, depth.units, of, s == 0 ? &right : nullptr, asked);
      }
    }
  }
  char* output(int row, int col) const {
    if (!is_narrow_) return to_.vector(row, col);
    return static_cast<char*>(job_.c.data) + row * output_row() + col * int64_t(sizeof(uint16_t));
  }
  int64_t output_row() const { return job_.c.row_stride * (is_narrow_ ? 2 : 4); }

  // Adds the products of some rows by a panel. The first ones, for which `right` is given, pack it.
  void add(const SliverRows& r, char* panel, int units, const Sums& sums, const Right* right,
           Requests& asked) {
    add(typename IndicesTo<kHigh>::type(), r, panel, units, sums, right, asked);
  }
  template <int... I>
  void add(Indices<I...>, const SliverRows& r, char* panel, int units, const Sums& sums,
           const Right* right, Requests& asked) {
    ((I + 1 == r.count ? add<I + 1>(r.begin, panel, units, sums, right, asked) : void()), ...);
  }
  template <int N>
  void add(int row, char* panel, int units, const Sums& sums, const Right* right, Requests& asked) {
    if (right)
      tile<N, true>(row, panel, units, sums, *right, asked);
    else
      tile<N, false>(row, panel, units, sums, {}, asked);
  }
  template <int N, bool IsFirst>
  void tile(int row, char* panel, int units, const Sums& sums, Right right, Requests& asked) {
    using M = Micro<Dot, N, kWide>;
    Sum sum[N * kWide];
    begin<N, kWide>(typename M::All(), sum, sums, row);
    const int32_t* a = a_ + row * kUnits;
    for (int unit = 0; unit < units; unit += kGroup, a += N * kGroup) {
      asked.take_turn();
      for (int u = 0; u < smaller(kGroup, units - unit); ++u, panel += kUnitBytes) {
        if constexpr (IsFirst) {
          if constexpr (kFuses) pack_unit(panel, right);
          right.at += kPerUnit * right.row, right.rows -= kPerUnit;
        }
        M::template step<void>(typename M::Down(), typename M::Across(), sum, typename M::Packed{a},
                               u, panel);
      }
    }
    if (sums.is_last && kBoxed) Woven::template order<N, kWide>(sum);
    end<N, kWide>(typename M::All(), sum, sums);
  }
  template <int N, int Wide, int... I>
  PTO_INLINE void begin(Indices<I...>, Sum* sum, const Sums& of, int row) const {
    using M = Micro<Dot, N, Wide>;
    if (of.from)
      ((sum[I] = M::load(of.from + I / Wide * of.from_row, I % Wide)), ...);
    else if constexpr (kExcess > 0)
      ((sum[I] = lanes::splat<Sum>(uint32_t(begin_[row + I / Wide]))), ...);
    else
      ((sum[I] = Sum{}), ...);
  }
  template <int N, int Wide, int... I>
  PTO_INLINE void end(Indices<I...>, const Sum* sum, const Sums& to) const {
    if constexpr (kReadsRows<Dot>) {
      if (to.is_last && is_narrow_) {
        const Vec<uint16_t, kLane> narrow[] = {Dot::rounded(sum[I])...};
        (__builtin_memcpy(to.to + I / Wide * to.to_row + I % Wide * sizeof narrow[I], &narrow[I],
                          sizeof narrow[I]),
         ...);
        return;
      }
    }
    (__builtin_memcpy(to.to + I / Wide * to.to_row + I % Wide * sizeof sum[I], &sum[I],
                      sizeof sum[I]),
     ...);
  }

  // Multiplies by the columns beyond the last whole panel.
  void rest(int col) {
    constexpr int kBytes = kPanelCols * 4;
    alignas(kLineBytes) char sums[kStreamPackedRows * kBytes];
    const int64_t bytes = (job_.cols - col) * (is_narrow_ ? 2 : 4);
    for (int k = 0; k < job_.depth; k += kDepth) {
      const int units = pack_left(k, kDepth);
      T part[kDepth * kPanelCols] = {};
      for (int i = 0; i < smaller(kDepth, job_.depth - k); ++i)
        __builtin_memcpy(part + i * kPanelCols, right_at(k + i, 0) + col,
                         size_t(job_.cols - col) * sizeof(T));
      const Right right = {part, kPanelCols, kDepth};
      for (int u = 0; u < units && !kFuses; ++u)
        pack_unit(b_ + u * kUnitBytes, {part + u * kPerUnit * kPanelCols, kPanelCols, kPerUnit});
      for (int s = 0; s < slivers(); ++s) {
        const SliverRows r = rows(s);
        char* const at = sums + r.begin * kBytes;
        Requests none = {{nullptr, 0, 0}, {nullptr, 0, 0}};
        add(r, b_, units, {k > 0 ? at : nullptr, at, kBytes, kBytes, k + kDepth >= job_.depth},
            s == 0 ? &right : nullptr, none);
      }
    }
    for (int r = 0; r < job_.rows; ++r)
      __builtin_memcpy(output(r, col), sums + r * kBytes, size_t(bytes));
  }

  const pto_matmul_job& job_;
  const Pack left_;
  const Place to_;
  const bool is_narrow_;
  const int64_t b_row_;
  int32_t a_[kStreamPackedRows * kUnits], begin_[kStreamPackedRows];
  alignas(kLineBytes) char b_[kAbreast * kPanelBytes];
};

}  // namespace matmul
PTO_NAMESPACE_END
