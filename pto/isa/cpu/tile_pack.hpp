// SPDX-License-Identifier: Apache-2.0
// Tile pack: gathers the operands of a product of tiles. A unit is 32 bits of depth: two bf16 or
// four bytes. Rows of a become rows of units; columns of b become tiles, [16 units][16 columns].
//
//     const TileSource<uint16_t> a(job.a, true, job.depth), b(job.b, false, job.depth);
//     a.rows(first, 32, k, steps, to);             // [32][steps][64 bytes]
//     b.columns(first, 32, k, steps, to, 2048);    // steps 2048 bytes apart, two tiles each
//
// Invariant: only elements of the operand are read. Beyond the depth, and beyond the columns, there
// are zeros, so that what is packed has the same bytes each time.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/tiles.hpp"
#include "pto/isa/cpu/transpose.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Elements of T are raw bits: uint16_t or uint8_t; of uint32_t each is a unit.
template <class T>
class TileSource {
  static constexpr int kPerUnit = 4 / int(sizeof(T));
  static constexpr int kGroupDepth = kGroup * kPerUnit;
  static constexpr int kAhead = 2;  // steps

 public:
  static constexpr int kStep = kTileCols * kPerUnit;  // elements of depth of a tile

  TileSource(const pto_matmul_matrix& m, bool is_left, int depth)
      : data_(static_cast<const T*>(m.data)),
        lines_(is_left ? rows_of(m) : cols_of(m)),
        depth_(is_left ? cols_of(m) : rows_of(m)),
        end_(depth) {}

  // Tells whether lines from multiples of 16 on are rows of tiles where they lie.
  bool has_tile_rows(int line_count) const {
    return depth_.stride == 1 && depth_.box >= end_ && is_even(line_count);
  }
  const T* at(int line, int k) const { return data_ + lines_.at(line) + depth_.at(k); }
  // Returns where some elements of a line lie one after another; null: they do not.
  const T* run(int line, int k, int count) const {
    const bool is_one = depth_.box >= k + count || (k & (depth_.box - 1)) + count <= depth_.box;
    return depth_.stride == 1 && is_one && k + count <= end_ ? at(line, k) : nullptr;
  }
  // Returns the first of some elements that lie in no boxes; null: they do.
  const T* plain(int first, int count, int k, int depth) const {
    const bool is_one = lines_.box >= first + count && depth_.box >= k + depth;
    return is_one && k + depth <= end_ ? at(first, k) : nullptr;
  }
  // The same, where also elements of some lines lie beside each other.
  const T* beside(int first, int count, int k, int depth) const {
    return lines_.stride == 1 ? plain(first, count, k, depth) : nullptr;
  }
  int64_t line_step() const { return lines_.stride; }
  int64_t depth_step() const { return depth_.stride; }
  // Returns how many of some steps from k on do not reach beyond the depth.
  int whole_steps(int k, int steps, int step) const {
    return smaller(steps, end_ > k ? (end_ - k) / step : 0);
  }
  // Returns how many of `count` elements from k on do not reach beyond the depth.
  int left(int k, int count) const { return k < end_ ? smaller(end_ - k, count) : 0; }
  // Asks the caches for `depth` elements of some lines, where neither are in boxes.
  void ask(int first, int count, int k, int depth) const {
    if (k + depth > end_ || lines_.box < first + count || depth_.box < k + depth) return;
    constexpr int kLine = 64 / int(sizeof(T));
    const bool is_along = depth_.stride == 1;
    const int64_t far = is_along ? lines_.stride : depth_.stride;
    const T* from = at(first, k);
    for (int i = is_along ? count : depth; i > 0; --i, from += far)
      for (int j = 0; j < (is_along ? depth : count); j += kLine) __builtin_prefetch(from + j);
  }
  int64_t line_bytes() const { return lines_.stride * int64_t(sizeof(T)); }

  // Copies lines as rows of `steps` x 64 bytes.
  void rows(int first, int count, int k, int steps, char* to) const {
    const int end = smaller(end_, k + steps * kStep);
    const int64_t row_bytes = int64_t(steps) * kTileRowBytes;
    for (int i = 0; i < count; ++i, to += row_bytes) {
      const int64_t bytes = int64_t(end > k ? end - k : 0) * int64_t(sizeof(T));
      row(reinterpret_cast<T*>(to), first + i, k, end);
      __builtin_memset(to + bytes, 0, size_t(row_bytes - bytes));
    }
  }

  // Copies lines as columns of tiles, 16 each, which lie beside each other in a step.
  void columns(int first, int count, int k, int steps, char* to, int64_t step_bytes) const {
    for (int step = 0; step < steps; ++step, k += kStep, to += step_bytes) {
      if (step + kAhead < steps) ask(first, count, k + kAhead * kStep, kStep);
      if constexpr (sizeof(T) < 4)
        if (count == 2 * kTileCols && beside(first, count, k, kStep)) {
          pair_across(at(first, k), to);
          continue;
        }
      for (int i = 0; i < count; i += kTileCols) {
        char* const at = to + i / kTileCols * kTileBytes;
        if (count - i < kTileCols) __builtin_memset(at, 0, kTileBytes);
        tile(first + i, smaller(count - i, kTileCols), k, reinterpret_cast<int32_t*>(at));
      }
    }
  }

 private:
  bool is_even(int line_count) const {
    return lines_.box >= line_count || lines_.box % kTileRows == 0;
  }

  void row(T* to, int line, int k, int end) const {
    while (k < end) {
      const int run =
          depth_.stride == 1 ? smaller(end - k, depth_.box - (k & (depth_.box - 1))) : 1;
      __builtin_memcpy(to, at(line, k), size_t(run) * sizeof(T));
      k += run, to += run;
    }
  }

  // One tile, [16 units][16 columns].
  void tile(int first, int count, int k, int32_t* to) const {
    if (lines_.stride == 1 && (lines_.box >= first + count || lines_.box % kTileCols == 0)) {
      for (int unit = 0; unit < kTileRows; ++unit, to += kTileCols)
        across(first, count, k + unit * kPerUnit, to);
    } else if (kVectorBytes >= 64 && depth_.stride == 1 && count == kTileCols &&
               plain(first, count, k, kStep)) {
      for (int unit = 0; unit < kTileRows; unit += 4)
        turned(first, k + unit * kPerUnit, to + unit * kTileCols);
    } else if (depth_.stride == 1 && depth_.box % kGroupDepth == 0) {
      // Eight lines at a time: their cache lines may share a set of the first cache.
      for (int j = 0; j < count; j += kGroup)
        for (int half = 0; half < kTileRows; half += kGroup)
          along(first + j, smaller(count - j, kGroup), k + half * kPerUnit,
                to + half * kTileCols + j);
    } else {
      for (int unit = 0; unit < kTileRows; ++unit, to += kTileCols)
        for (int j = 0; j < count; ++j) one(first + j, k + unit * kPerUnit, to + j);
    }
  }

  // Four units of 16 columns whose elements lie together along the depth.
  PTO_INLINE void turned(int first, int k, int32_t* to) const {
    if constexpr (kVectorBytes >= 64) {
      Vec<uint32_t, kTileCols> v[4];
      moves::load_transposed<4, kTileCols>(v, reinterpret_cast<const char*>(at(first, k)),
                                           line_bytes());
      __builtin_memcpy(to, v, sizeof v);
    }
  }

  // Two tiles from rows of 32 columns that lie together.
  void pair_across(const T* from, char* to) const {
    for (int unit = 0; unit < kTileRows; ++unit, to += kTileRowBytes) {
      Halves rows[2];
      for (Halves& row : rows) row = two_rows(from), from += kPerUnit / 2 * depth_.stride;
      const auto low = zip<0>(typename IndicesTo<kTileRowBytes / 2>::type(), rows[0], rows[1]);
      const auto high =
          zip<kTileCols>(typename IndicesTo<kTileRowBytes / 2>::type(), rows[0], rows[1]);
      __builtin_memcpy(to, &low, sizeof low);
      __builtin_memcpy(to + kTileBytes, &high, sizeof high);
    }
  }
  // Elements of 16 bits of a row of 32 columns, or of 8 bits of two rows, in pairs.
  using Halves = Vec<uint16_t, kTileRowBytes / 2>;
  PTO_INLINE Halves two_rows(const T* from) const {
    Vec<T, 2 * kTileCols> row;
    __builtin_memcpy(&row, from, sizeof row);
    if constexpr (sizeof(T) == 1) {
      Vec<T, 2 * kTileCols> next;
      __builtin_memcpy(&next, from + depth_.stride, sizeof next);
      return lanes::convert<uint16_t>(row) | lanes::convert<uint16_t>(next) << 8;
    } else {
      return bit_cast<Halves>(row);
    }
  }
  template <int First, int... I>
  static PTO_INLINE Halves zip(Indices<I...>, Halves even, Halves odd) {
    return __builtin_shufflevector(even, odd, (I % 2 * 2 * kTileCols + First + I / 2)...);
  }

  // A row of units from rows of columns that lie together.
  PTO_INLINE void across(int first, int count, int k, int32_t* to) const {
    using Row = Vec<uint32_t, kTileCols>;
    using LooseRow = typename VecOf<uint32_t, kTileCols>::loose;
    Row units = {};
    PTO_UNROLL
    for (int part = 0; part < kPerUnit; ++part) {
      if (k + part >= end_) break;
      Vec<T, kTileCols> row = {};
      if (count == kTileCols)
        __builtin_memcpy(&row, at(first, k + part), sizeof row);
      else
        __builtin_memcpy(&row, at(first, k + part), size_t(count) * sizeof(T));
      units |= widened(row) << uint32_t(part * 8 * int(sizeof(T)));
    }
    *reinterpret_cast<LooseRow*>(to) = units;
  }
  static PTO_INLINE Vec<uint32_t, kTileCols> widened(Vec<T, kTileCols> row) {
    if constexpr (sizeof(T) == 2)
      return lanes::wide_integers(row);
    else
      return bit_cast<Vec<uint32_t, kTileCols>>(lanes::convert<int32_t>(row));
  }

  // Eight units of at most eight columns whose elements lie together along the depth.
  PTO_INLINE void along(int first, int count, int k, int32_t* to) const {
    Group v[kGroup] = {};
    const int left = end_ - k;
    if (count == kGroup && left >= kGroupDepth && lines_.box >= first + kGroup) {
      const T* const from = at(first, k);
      PTO_UNROLL
      for (int j = 0; j < kGroup; ++j)
        __builtin_memcpy(&v[j], from + j * lines_.stride, sizeof(Group));
    } else {
      for (int j = 0; j < count && left > 0; ++j)
        __builtin_memcpy(&v[j], at(first + j, k), size_t(smaller(left, kGroupDepth)) * sizeof(T));
    }
    transpose(v);
    PTO_UNROLL
    for (int i = 0; i < kGroup; ++i) *reinterpret_cast<LooseGroup*>(to + i * kTileCols) = v[i];
  }

  PTO_INLINE void one(int line, int k, int32_t* to) const {
    T parts[kPerUnit] = {};
    for (int part = 0; part < kPerUnit && k + part < end_; ++part)
      parts[part] = *at(line, k + part);
    __builtin_memcpy(to, parts, sizeof parts);
  }

  const T* data_;
  Axis lines_, depth_;
  int end_;
};

}  // namespace matmul
PTO_NAMESPACE_END
