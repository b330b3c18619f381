// SPDX-License-Identifier: Apache-2.0
// Matmul apart: products of a few rows by a b of floats, bf16 or bytes whose short rows, or
// columns, lie apart, as keys and values of one head do in a cache. Their time is that of reading
// b, and a CPU sees no pattern in it: so each tile asks for what a later one reads, and for what
// the product after this one reads, some lines between its multiply-adds.
//
//     const bool is_done = Apart<FloatDot, float>(job).run();   // false: not for these sizes
//
// Rows of b pass beside sums in registers: all of them where the second cache has them already,
// else a few at a time. Columns of b are multiplied by boxes (matmul_boxes.hpp). Bytes become
// floats, or bf16 for pairs, in the first cache, some rows or columns at a time.
//
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_boxes.hpp"
#include "pto/isa/cpu/matmul_near_bytes.hpp"
#include "pto/isa/cpu/matmul_place.hpp"
#include "pto/isa/cpu/matmul_stream.hpp"
#include "pto/isa/cpu/matmul_stretches.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kApartUnits = 256;     // of a column of b, or rows of b that pass at once
constexpr int kApartNear = 8 << 10;  // units of rows of b

// Rows of a, and their boxes.
struct ApartPanels {
  int32_t left[PTO_MATMUL_FEW_ROWS * kApartUnits];
  int32_t boxes[PTO_MATMUL_FEW_ROWS / kBox * kApartUnits * kLane];
  int32_t few[kLane * kApartUnits];  // columns of b, where a tile has more, or of bytes
  int32_t near[kApartNear];          // rows of b of bytes
};

// T: the type of b's elements, float, bf16 or int8_t.
template <class Dot, class T>
class Apart {
 public:
  static constexpr int kPassing = kVectorBytes == 64 ? 32 : 16;  // units of far rows, at once
  // Rows from those that pass to those asked for: about 16 KB; the first cache has room for both.
  static int asked(int cols) {
    constexpr int kLeast = kPassing * Dot::kPerUnit, kMost = 4 * kLeast;
    const int64_t least = int64_t{kLeast} * cols * kBytes;
    return smaller(int((16 << 10) / (least + 1)) * kLeast + kLeast, kMost);
  }
  explicit Apart(const pto_matmul_job& job)
      : job_(job), to_(job.c, job.rows, job.cols), stretches_(job) {}

  // Writes the outputs, or nothing. If `is_apart`, rows of b pass in any case, and ask for those
  // that follow, into the first cache; the last ones for `soon`.
  bool run(bool is_apart = false) {
    if (job_.rows > kFewRows || job_.packed || job_.bias.data) return false;
    if (adds() && !is_in_place()) return false;
    if (job_.packs || job_.depth <= 0 || job_.c.type != PTO_MATMUL_F32) return false;
    if (!to_.is_plain(job_.rows, job_.cols) || !reads_left()) return false;
    if (has_rows(job_.b, job_.b_scale, job_.depth, job_.cols)) return by_rows(is_apart);
    return has_rows(turned(job_.b), job_.b_scale, job_.cols, job_.depth) && !adds() && by_columns();
  }

 private:
  static constexpr int kFewRows = PTO_MATMUL_FEW_ROWS;
  static constexpr bool kIsByte = kSame<T, int8_t>;
  using Near = typename Choose<!kIsByte, T, typename NumberOf<Dot>::type>::type;  // multiplied
  static constexpr int kPerUnit = Dot::kPerUnit, kBytes = sizeof(T), kNear = sizeof(Near);
  static constexpr int kLongest = kApartUnits * kPerUnit;  // elements of a row or column of b
  static constexpr int kAhead = 16;  // rows or columns of b that are asked for early
  static constexpr bool kRepeats = kVectorBytes == 64 && kSame<T, float>;
  static constexpr int kRepeated = 8;              // rows of b ahead that are asked for again
  static constexpr int64_t kNearBytes = 32 << 10;  // the first cache has 8 ways of 4 KB, or more
  static constexpr int kWideRows = kVectorBytes == 64 ? 4 : 3;  // with four vectors of sums each
  static constexpr int kTileRows = kRows < 8 ? kRows : 8;       // of a
  static constexpr int kBoxRows = kVectorBytes == 64 ? 16 : 8;

  bool are_apart(int64_t stride, int length) {
    return length <= kLongest && stretches_.are_apart(stride * kBytes, int64_t{length} * kBytes);
  }
  bool reads_left() const {
    const int type = job_.a.type;
    const bool is_read = type == PTO_MATMUL_BF16 || (kPerUnit == 1 && type == PTO_MATMUL_F32);
    return is_read && has_rows(job_.a, job_.a_scale, job_.rows, job_.depth);
  }
  bool adds() const { return job_.start.data != nullptr; }
  bool is_in_place() const {
    const Place from(job_.start, job_.rows, job_.cols);
    return from.is_plain(job_.rows, job_.cols) && from.data == to_.data &&
           from.rows.stride == to_.rows.stride;
  }
  // Requests during so many turns, where b is `count` runs of elements, `stride` apart.
  Requests requests(int64_t stride, int length, int count, int64_t turns) const {
    const pto_runs b = {
        job_.b.data, stride * kBytes, int64_t{length} * kBytes, count, nullptr, 0, 0};
    return {Lines(job_.is_asked || stretches_.has_pages() ? nullptr : &b, kAhead, turns),
            Lines(job_.soon, 0, turns * parts_of(job_))};
  }

  // Units of rows of a, `row` units apart.
  struct Left {
    const int32_t* at;
    int64_t row;
  };
  // Returns those of row k on, where they lie or as a copy.
  Left left(int k, int units) const {
    const auto* const a = static_cast<const char*>(job_.a.data);
    const int64_t row = job_.a.row_stride, item = job_.a.type == PTO_MATMUL_F32 ? 4 : 2;
    const bool is_whole = item * kPerUnit == 4 && row % kPerUnit == 0;
    if (is_whole && job_.depth % kPerUnit == 0)
      return {reinterpret_cast<const int32_t*>(a + k * item), row / kPerUnit};
    const int count = smaller(job_.depth - k, units * kPerUnit);
    for (int r = 0; r < job_.rows; ++r) {
      int32_t* const to = panels().left + r * units;
      const auto* const from = reinterpret_cast<const bfloat16_t*>(a + (r * row + k) * item);
      if constexpr (kPerUnit == 1) {
        for (int i = 0; i < count; ++i) to[i] = bit_cast<int32_t>(float(from[i]));
      } else {
        to[units - 1] = 0;
        __builtin_memcpy(to, from, size_t(count) * sizeof *from);
      }
    }
    return {panels().left, units};
  }

  // --- rows of b ---------------------------------------------------------------------------------

  // Some units of b, from row k on, by vectors of columns from `col` on.
  struct Part {
    Left left;
    int k, units, col;
  };

  bool by_rows(bool is_apart) {
    if (!are_apart(job_.b.row_stride, job_.cols) && !is_apart) return false;
    if (job_.cols % kLane != 0 || stretches_.per_page() % kPerUnit != 0) return false;
    const int units = quotient_up(job_.depth, kPerUnit);
    const int step = smaller(job_.is_asked && !kIsByte ? kApartUnits : kPassing, near_units());
    const int64_t tiles = int64_t{slivers()} * strips();
    Requests asked = {{nullptr, 0, 0}, {nullptr, 0, 0}};
    if (!is_apart)
      asked = requests(job_.b.row_stride, job_.cols, job_.depth, units / kGroup * tiles);
    for (int unit = 0; unit < units; unit += step) {
      const int some = smaller(step, units - unit);
      NearRows near = is_apart ? ahead(unit * kPerUnit, step * kPerUnit) : NearRows{};
      if (is_apart) near_ = &near;
      pass({left(unit * kPerUnit, some), unit * kPerUnit, some, 0}, asked);
    }
    if (job_.soon && !is_apart) *job_.soon = asked.next.rest();
    return true;
  }
  // Units of rows whose strips the first cache keeps beside each other, however far they lie apart.
  int near_units() const {
    int64_t near = kNearBytes / (job_.b.row_stride * kBytes * kPerUnit);
    if (kIsByte && near > kApartNear / job_.cols) near = kApartNear / job_.cols;
    return near >= kApartUnits ? kApartUnits : near < kGroup ? kGroup : int(near) / kGroup * kGroup;
  }
  // Asks for what passes behind row k: rows of b, or what the caller reads next, or the same ones.
  NearRows ahead(int k, int rows) const {
    const int64_t row = job_.b.row_stride * kBytes;
    const int then = k + asked(job_.cols), beyond = then - job_.depth;
    if (beyond >= 0 && job_.soon && job_.soon->data)
      return {pto_run_at(job_.soon, beyond), job_.soon->distance, job_.soon->bytes, rows};
    return {stretches_.from(row, beyond < 0 ? then : k).at, row, job_.cols * kBytes, rows};
  }
  int slivers() const { return quotient_up(job_.rows, kTileRows); }
  // Vectors of columns of a tile of so many rows; the last columns pass one at a time.
  static constexpr int wide(int rows) { return rows <= kWideRows ? 4 : 2; }
  int wide() const { return wide(quotient_up(job_.rows, slivers())); }
  int strips() const { return job_.cols / kLane / wide() + job_.cols / kLane % wide(); }
  // Adds the products of some rows of b to all sums.
  void pass(Part part, Requests& asked) const {
    if constexpr (kIsByte) widen_rows(part);
    if (wide() == 4)
      strips<4>(part, asked);
    else
      strips<2>(part, asked);
    strips<1>(part, asked);
  }
  // Widens the rows of a part, and a row of zeros where the last unit lacks one.
  void widen_rows(const Part& part) const {
    Near* to = reinterpret_cast<Near*>(panels().near);
    for (int k = part.k; k < part.k + part.units * kPerUnit; ++k, to += job_.cols)
      if (k < job_.depth)
        widen_bytes(reinterpret_cast<const T*>(stretches_.from(job_.b.row_stride * kBytes, k).at),
                    to, job_.cols);
      else
        __builtin_memset(to, 0, size_t(job_.cols) * kNear);
  }
  // Rows of b as they are multiplied, from row k of a part on.
  Stretches::Stretch rows_of(const Part& part, int k) const {
    if constexpr (kIsByte)
      return {reinterpret_cast<const char*>(panels().near) + (k - part.k) * near_row(), 1 << 30};
    else
      return stretches_.from(near_row(), k);
  }
  int64_t near_row() const { return (kIsByte ? job_.cols : job_.b.row_stride) * kNear; }
  template <int Wide>
  void strips(Part& part, Requests& asked) const {
    for (; job_.cols - part.col >= Wide * kLane; part.col += Wide * kLane)
      for (int s = 0; s < slivers(); ++s) {
        const int row = share(job_.rows, s, slivers()), next = share(job_.rows, s + 1, slivers());
        add<Wide>(typename IndicesTo<kTileRows>::type(), row, next - row, part, asked);
      }
  }
  template <int Wide, int... R>
  void add(Indices<R...>, int row, int rows, const Part& part, Requests& asked) const {
    ((R + 1 == rows ? tile<R + 1, Wide>(row, part, asked) : void()), ...);
  }
  template <int Rows, int Wide>
  void tile(int row, const Part& part, Requests& asked) const {
    if constexpr (Wide == 1 || Wide == wide(Rows) || (Rows == kWideRows && Wide == 2)) {
      using M = Micro<Dot, Rows, Wide>;
      char* const to = to_.vector(row, part.col);
      const int64_t to_row = to_.rows.stride * 4, b_row = near_row();
      typename M::Sum sum[Rows * Wide];
      begin<Wide>(typename M::All(), sum, part.k > 0 || adds() ? to : nullptr, to_row);
      typename M::Placed rows(part.left.at + row * part.left.row, part.left.row);
      const bool asks = near_ && row == 0;
      const bool is_odd = kPerUnit > 1 && !kIsByte && part.k + part.units * kPerUnit > job_.depth;
      for (int k = part.k, left = part.units - is_odd; left > 0;) {
        const Stretches::Stretch here = rows_of(part, k);
        const char* b = here.at + part.col * kNear;
        int units = smaller(left, here.count / kPerUnit);
        k += units * kPerUnit, left -= units;
        for (; units >= kGroup; units -= kGroup) {
          asked.take_turn();
          PTO_UNROLL
          for (int u = 0; u < kGroup; ++u, b += kPerUnit * b_row, M::keep(b)) {
            if (asks)
              near_->template ask<Wide>();
            else if (kRepeats && job_.is_asked)
              repeat<Wide>(b, b_row);
            step<M>(typename M::Down(), typename M::Across(), sum, rows, b, b_row);
          }
        }
        for (; units > 0; --units, b += kPerUnit * b_row)
          step<M>(typename M::Down(), typename M::Across(), sum, rows, b, b_row);
      }
      if constexpr (kPerUnit > 1 && !kIsByte) {
        if (is_odd) {
          const char* const b = stretches_.from(b_row, job_.depth - 1).at + part.col * kBytes;
          constexpr size_t kRow = size_t(Wide) * kLane * kBytes;
          char* const last = reinterpret_cast<char*>(panels().few);  // and a row of zeros
          __builtin_memcpy(last, b, kRow);
          __builtin_memset(last + kRow, 0, kRow);
          step<M>(typename M::Down(), typename M::Across(), sum, rows, last, kRow);
        }
      }
      end<Wide>(typename M::All(), sum, to, to_row);
    }
  }
  // Asks once more, for the first cache, as some requests are lost where memory is slow; rows of
  // half the bytes, and half as wide vectors, do not gain by it.
  template <int Wide>
  static PTO_INLINE void repeat(const char* b, int64_t b_row) {
    for (int line = 0; line < Wide * kLane * kBytes; line += kLineBytes)
      __builtin_prefetch(b + kRepeated * b_row + line);
  }
  template <class M, int... I, int... J>
  static PTO_INLINE void step(Indices<I...>, Indices<J...> across, typename M::Sum* sum,
                              typename M::Placed& rows, const char* b, int64_t b_row) {
    const Units right[] = {unit_of<M, J, sizeof...(J)>(b, b_row)...};
    (M::template row<I>(across, sum, rows.template at<I>(0), right), ...);
    rows.go_on(1);
  }
  // Loads a vector of units of b, or one of two whose elements of two rows are interleaved within
  // boxes of 16 bytes, which takes one instruction.
  template <class M, int J, int Wide>
  static PTO_INLINE Units unit_of(const char* b, int64_t b_row) {
    if constexpr (!is_woven(Wide)) {
      return M::template unit_of<Near>(b, b_row, J);
    } else {
      using Row = Vec<uint16_t, 2 * kLane>;
      Row even, odd;
      __builtin_memcpy(&even, b + J / 2 * kVectorBytes, sizeof even);
      __builtin_memcpy(&odd, b + b_row + J / 2 * kVectorBytes, sizeof odd);
      return bit_cast<Units>(zip<J % 2>(even, odd));
    }
  }
  static constexpr bool is_woven(int wide) { return kPerUnit > 1 && wide % 2 == 0; }

  // Box i of vector p of two that are woven is box 2 i + p of the columns.
  template <int Half, class Sum, int... I>
  static PTO_INLINE Sum straight(Sum a, Sum b, Indices<I...>) {
    return __builtin_shufflevector(
        a, b, (I / kBox % 2 * kLane + (Half * kLane / kBox + I / kBox) / 2 * kBox + I % kBox)...);
  }
  template <int Half, class Sum, int... I>
  static PTO_INLINE Sum woven(Sum a, Sum b, Indices<I...>) {
    return __builtin_shufflevector(a, b, ((2 * (I / kBox) + Half) * kBox + I % kBox)...);
  }
  // The vector of sums beside I of two.
  static constexpr int beside(int i, int half) { return i - i % 2 + half; }

  template <int Wide, class Sum, int... I>
  static PTO_INLINE void begin(Indices<I...>, Sum* sum, const char* from, int64_t row) {
    using M = Micro<Dot, 1, Wide>;
    using All = typename IndicesTo<kLane>::type;
    if (!from)
      ((sum[I] = Sum{}), ...);
    else if constexpr (!is_woven(Wide))
      ((sum[I] = M::load(from + I / Wide * row, I % Wide)), ...);
    else
      ((sum[I] = woven<I % 2>(M::load(from + I / Wide * row, beside(I % Wide, 0)),
                              M::load(from + I / Wide * row, beside(I % Wide, 1)), All())),
       ...);
  }
  template <int Wide, class Sum, int... I>
  static PTO_INLINE void end(Indices<I...>, const Sum* sum, char* to, int64_t row) {
    using Loose = typename Micro<Dot, 1, Wide>::LooseSum;
    using All = typename IndicesTo<kLane>::type;
    const auto at = [to, row](int i) { return to + i / Wide * row + i % Wide * kVectorBytes; };
    if constexpr (!is_woven(Wide))
      ((*reinterpret_cast<Loose*>(at(I)) = sum[I]), ...);
    else
      ((*reinterpret_cast<Loose*>(at(I)) =
            straight<I % 2>(sum[beside(I, 0)], sum[beside(I, 1)], All())),
       ...);
  }

  // --- columns of b ------------------------------------------------------------------------------

  bool by_columns() {
    if (!are_apart(job_.b.col_stride, job_.depth) || job_.depth % kPerUnit != 0) return false;
    if (job_.cols < kBox) return false;
    const int units = job_.depth / kPerUnit, tiles = quotient_up(job_.cols, kLane);
    const int slivers = quotient_up(job_.rows, kBoxRows);
    const Left a = left(0, units);
    Requests asked = requests(job_.b.col_stride, job_.depth, job_.cols,
                              int64_t{tiles} * slivers * (units / kLineUnits));
    for (int row = 0; row < job_.rows; row += kBoxRows) {
      const int rows = smaller(job_.rows - row, kBoxRows), groups = quotient_up(rows, kBox);
      pack_boxes(panels().boxes, a.at + row * a.row, a.row, rows, units);
      multiply(typename IndicesTo<kBoxRows / kBox>::type(), groups, row, rows, units, asked);
    }
    if (job_.soon) *job_.soon = asked.next.rest();
    return true;
  }

  template <int... G>
  void multiply(Indices<G...>, int groups, int row, int rows, int units, Requests& asked) const {
    ((G + 1 == groups ? tiles<G + 1>(row, rows, units, asked) : void()), ...);
  }
  template <int Groups>
  void tiles(int row, int rows, int units, Requests& asked) const {
    using Tile = BoxTile<Dot, Near, Groups>;
    const int64_t b_col = job_.b.col_stride * kBytes, to_row = to_.rows.stride * 4;
    const int64_t few_col = int64_t{job_.depth} * kNear;
    if (job_.cols < kLane) {
      int32_t sums[kBoxRows * kLane];
      Tile::run(copied(0, job_.cols), few_col, panels().boxes, rows, units,
                reinterpret_cast<char*>(sums), kVectorBytes, asked);
      for (int r = 0; r < rows; ++r) to_.write(sums + r * kLane, row + r, 0, job_.cols);
      return;
    }
    for (int col = 0; col < job_.cols; col += kLane) {
      const int first = smaller(col, job_.cols - kLane);  // the last ones may be computed twice
      const Stretches::Stretch here = stretches_.from(b_col, first);
      const bool is_even = !kIsByte && here.count >= kLane;
      Tile::run(is_even ? here.at : copied(first, kLane), is_even ? b_col : few_col, panels().boxes,
                rows, units, to_.vector(row, first), to_row, asked);
    }
  }
  // Copies some columns of b, as they are multiplied.
  const char* copied(int first, int count) const {
    Near* const few = reinterpret_cast<Near*>(panels().few);
    for (int i = 0; i < count; ++i) {
      const char* const from = stretches_.from(job_.b.col_stride * kBytes, first + i).at;
      Near* const to = few + int64_t{i} * job_.depth;
      if constexpr (kIsByte)
        widen_bytes(reinterpret_cast<const T*>(from), to, job_.depth);
      else
        __builtin_memcpy(to, from, size_t(job_.depth) * kBytes);
    }
    return reinterpret_cast<const char*>(few);
  }

  // Memory that no product has at the same time: a library has room for few variables of threads.
  static ApartPanels& panels() {
    static_assert(sizeof(ApartPanels) <= sizeof(StreamSums));
    return reinterpret_cast<ApartPanels&>(of_thread<StreamSums>());
  }

  const pto_matmul_job& job_;
  const Place to_;
  Stretches stretches_;
  NearRows* near_ = nullptr;  // those behind the rows that pass
};

// Multiplies where a is of floats and the sizes are for it; false: nothing was written.
template <class Dot>
bool run_apart(const pto_matmul_job& job) {
  if (job.rows > PTO_MATMUL_FEW_ROWS || job.b_patches) return false;
  if (job.b.type == PTO_MATMUL_BF16) return Apart<Dot, bfloat16_t>(job).run();
  if (job.b.type == PTO_MATMUL_I8) return Apart<Dot, int8_t>(job).run();
  if constexpr (Dot::kPerUnit == 1)
    return job.b.type == PTO_MATMUL_F32 && Apart<Dot, float>(job).run();
  return false;
}

}  // namespace matmul
PTO_NAMESPACE_END
