// SPDX-License-Identifier: Apache-2.0
// Matmul loops: a matrix product from panels. A panel of b stays near while the rows of a block of
// a, which stays in the second cache, pass by.
//
//     Product<FloatDot>(job, pack_left<float>, pack_right<float>).run();
//
// Invariant: writes the rows x cols of job.c and nothing else; takes its memory once per thread.
// Thread safety: each thread has its own panels.
#pragma once
#include "pto/isa/cpu/matmul_block.hpp"
#include "pto/isa/cpu/matmul_excess.hpp"
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/matmul_stream.hpp"
#include "pto/isa/cpu/of_thread.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

template <class Dot>
class Product {
  using Unit = typename Dot::Unit;
  using Place = PlaceOf<Unit>;
  static constexpr int kLane = kDotLanes<Dot>, kBlockVectors = kBlockCols / kLane;
  static constexpr int kDepth = matmul::kDepth * 4 / int(sizeof(Unit));
  static constexpr int kPanelCols = kVectors * kLane;

 public:
  Product(const pto_matmul_job& job, Pack left, Pack right, int first_factor = 0)
      : job_(job),
        left_(left),
        right_(right),
        panels_(of_thread<BlockPanels>()),
        first_factor_(first_factor),
        packed_(static_cast<char*>(job.packed)),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols),
        slivers_(quotient_up(job.rows, kRows)) {
    if (packed_ && first_factor_) {
      const int units = quotient_up(quotient_up(job.depth, Dot::kPerUnit), kGroup) * kGroup;
      const int cols = job.packed_cols ? job.packed_cols : job.cols;
      packed_sums_ = packed_ + panel_bytes(units, quotient_up(cols, kLane) * kLane);
    }
    if (!kReadsRows<Dot> || job.packs) return;
    is_narrow_ = job.c.type == PTO_MATMUL_F16 || job.c.type == PTO_MATMUL_BF16;
    const bool is_even = job.depth % Dot::kPerUnit == 0;  // all units are whole
    b_is_rows_ = !job.packed && !job.b_patches && job.b.data && is_even && copies(job.b.type) &&
                 has_rows(job.b, job.b_scale, job.depth, job.cols);
    const int64_t row = job.a.row_stride / Dot::kPerUnit, units = job.rows * row;
    a_in_place_ =
        job.a.data && is_even && row * Dot::kPerUnit == job.a.row_stride &&
        job.a.type == (Dot::kPerUnit == 1 ? PTO_MATMUL_F32 : PTO_MATMUL_BF16) &&
        (kVectorBytes == 64 ? row % kSetUnits || job.rows <= kRows / 2 || job.cols <= kFewCols
                            : (job.packed && job.rows <= kFewRows) || units <= kNearUnits) &&
        has_rows(job.a, job.a_scale, job.rows, job.depth);
    b_in_place_ = b_is_rows_ && job.b.type == PTO_MATMUL_F32 &&
                  (slivers_ == 1 || job.depth * int64_t{job.cols} <= kSmallUnits);
    if (b_is_rows_ && !b_in_place_ && !is_narrow_ && slivers_ <= kFewSlivers) depth_ = kFewDepth;
  }

  void run() {
    const int units = quotient_up(job_.depth, Dot::kPerUnit);
    const int steps = units > depth_ ? quotient_up(units, depth_) : 1;
    const int vectors = quotient_up(job_.cols, kLane), blocks = quotient_up(vectors, kBlockVectors);
    for (int block = 0; block < blocks; ++block) {
      const int begin = share(vectors, block, blocks), end = share(vectors, block + 1, blocks);
      for (int step = 0; step < steps; ++step) {
        const int groups = quotient_up(units, kGroup);
        const int first = share(groups, step, steps) * kGroup;
        const int last = smaller(units, share(groups, step + 1, steps) * kGroup);
        run_block({begin, end, first * Dot::kPerUnit, last - first, step == 0, step + 1 == steps});
      }
    }
  }

 private:
  // Vectors of columns, units of depth from `k` on, and the block's effect on its outputs.
  struct Block {
    int begin, end, k, units;
    bool is_first, is_last;
    int panels() const { return quotient_up(end - begin, kVectors); }
  };
  // One panel of b: its columns and what precedes it in the block.
  struct Columns {
    int begin, vectors, count, before;
    bool is_whole() const { return count == vectors * kLane; }
  };
  Columns columns(const Block& block, int panel) const {
    const int first = panel * kVectors, left = block.end - block.begin - first;
    const int begin = (block.begin + first) * kLane, vectors = smaller(left, kVectors);
    return {begin, vectors, smaller(job_.cols - begin, vectors * kLane), first * kLane};
  }
  // The rows are cut into parts as equal as possible, the higher ones first.
  SliverRows rows(int sliver) const {
    const int low = job_.rows / slivers_, higher = job_.rows % slivers_;
    return {sliver * low + smaller(sliver, higher), low + (sliver < higher)};
  }
  // Slivers below each other.
  struct Tiles {
    int sliver, count;
  };
  // Counts the slivers from this one on, below `last`, that have as many rows.
  int equals(int sliver, int last) const {
    const int higher = job_.rows % slivers_;
    return (sliver < higher ? smaller(higher, last) : last) - sliver;
  }

  void run_block(const Block& block) {
    const int depth = quotient_up(block.units, kGroup) * kGroup, panels = block.panels();
    char* right = reinterpret_cast<char*>(panels_.right);
    if (packed_) {
      const int cols = job_.packed_cols ? quotient_up(job_.packed_cols, kLane) * kLane
                                        : (block.end - block.begin) * kLane;
      right = packed_ + panel_bytes(depth, job_.packed_first);
      packed_ += panel_bytes(depth, cols);
    }
    if (!job_.packed || job_.packs) pack_panels(block, right, depth);
    for (int p = 0; p < panels; ++p) {
      const Columns c = columns(block, p);
      sum_columns(right + panel_bytes(depth, c.before), c, block);
      if (block.is_last && job_.bias.data) take_bias(c);
    }
    if (job_.packs) return;
    for (int first = 0; first < slivers_; first += kBlockSlivers) {
      const int last = smaller(slivers_, first + kBlockSlivers);
      for (int s = first; s < last && !a_in_place_; ++s) {
        const SliverRows r = rows(s);
        left_(job_, left_of(s), {r.begin, r.count, r.count, block.k, block.units});
      }
      for (int p = run_abreast(block, right, depth); p < panels; ++p) {
        const Columns c = columns(block, p);
        Asking asking = {};
        if (p + 1 < panels) asking = ask_for(block, p + 1, right, {first, last - first});
        for (int s = first, count = 0; s < last; s += count) {
          const bool asks = s >= asking.first && s < asking.last;
          const bool copies = is_copied(c) && s == 0;
          count = copies ? 1 : equals(s, asks ? asking.last : last);
          count = run_tiles(block, {s, count}, c, right + panel_bytes(depth, c.before),
                            asks ? asking.soon : Soon{});
          if (asks) asking.soon.at += count * asking.soon.bytes(block.units);
        }
      }
    }
  }

  // Slivers from `first` to before `last`, whose tiles ask for the same panel.
  struct Asking {
    Soon soon;
    int first, last;
  };
  // The tiles of a panel ask for the next one where it comes from far: from b, while it is copied,
  // or packed long ago.
  Asking ask_for(const Block& block, int panel, const char* right, Tiles tiles) const {
    const Columns c = columns(block, panel);
    const int first = tiles.sliver, last = first + tiles.count;
    if (is_copied(c) && first == 0) {  // by the first sliver
      const int64_t row = right_at(1, 0) - right_at(0, 0);
      const char* const b = right_at(block.k, c.begin) + kLineBytes - 1;  // up to its last line
      // All rows with the units of the next slivers; or one row with each group.
      if (last <= kGroup || Dot::kPerUnit > 1)
        return {{b, row, 0}, 1, smaller(1 + Dot::kPerUnit, last)};
      return {{b, 0, row}, 1, 1 + kGroup};
    }
    if ((!job_.packed && first == 0) || asks_near()) return {};
    const int depth = quotient_up(block.units, kGroup) * kGroup;
    const int bytes = c.vectors * kLane * Dot::kRightBytes;
    const char* const at = right + panel_bytes(depth, c.before);
    return {{at, quotient_up(bytes, tiles.count), 0}, first, last};
  }

  // True where one tile passes each packed panel, and asks for what lies a little farther, into the
  // first cache, rather than for the next panel. Long rows of floats leave it no room there.
  bool asks_near() const {
    const bool has_room = Dot::kPerUnit > 1 || job_.depth <= 2 * kDepth;
    return job_.packed && a_in_place_ && slivers_ == 1 && has_room;
  }

  // Multiplies a few rows by packed panels, some at once; returns how many panels.
  int run_abreast(const Block& block, const char* right, int depth) const {
    using Rows = IndicesTo<kReadsRows<Dot> ? kAbreastRows : 0>;
    if (!job_.packed || !a_in_place_ || !has_vectors(source(block))) return 0;
    return run_abreast(typename Rows::type(), block, right, depth);
  }
  template <int... R>
  int run_abreast(Indices<R...>, [[maybe_unused]] const Block& block,
                  [[maybe_unused]] const char* right, [[maybe_unused]] int depth) const {
    int made = 0;
    ((job_.rows == R + 1 ? void(made = run_abreast<R + 1>(block, right, depth)) : void()), ...);
    return made;
  }
  template <int R>
  int run_abreast(const Block& block, const char* right, int depth) const {
    constexpr int kPanels = panels_abreast(R);
    const int whole = (smaller(block.end * kLane, job_.cols) - block.begin * kLane) / kPanelCols;
    int panel = 0;
    for (; panel + kPanels <= whole; panel += kPanels) {
      Outputs out[kPanels];
      for (int i = 0; i < kPanels; ++i)
        out[i] = outputs_of(block, {0, R}, columns(block, panel + i), true);
      const char* const b = right + panel_bytes(depth, columns(block, panel).before);
      const Operands of = {left_at(0, block.k), b, block.units, 1, 0};
      const int64_t row = job_.a.row_stride / Dot::kPerUnit;
      const InPlace in = {of, row, kGroup, kPanelCols, kPanels, 0, nullptr};
      Abreast<Dot, R, kPanels>::run(in, panel_bytes(depth, kPanelCols), out);
    }
    return panel;
  }

  static int64_t panel_bytes(int depth, int cols) {
    return int64_t(depth) * cols * Dot::kRightBytes;
  }

  // True where kernels copy elements of b, of this type, to panels.
  static bool copies(int type) {
    if (Dot::kPerUnit > 1) return type == PTO_MATMUL_BF16;
    return type == PTO_MATMUL_F32 || type == PTO_MATMUL_F16 || type == PTO_MATMUL_BF16;
  }
  // True where b is packed by the kernel that multiplies the first sliver by it.
  bool is_copied(const Columns& c) const { return b_is_rows_ && !b_in_place_ && c.is_whole(); }

  void pack_panels(const Block& block, char* right, int depth) const {
    int panel = 0;
    if constexpr (!kSame<Dot, FloatDot>) {  // all whole panels at once
      const int begin = block.begin * kLane;
      panel = (smaller(block.end * kLane, job_.cols) - begin) / kPanelCols;
      if (panel > 0 && !is_copied(columns(block, 0)))
        right_(job_, right,
               {begin, panel * kPanelCols, kPanelCols, block.k, block.units,
                panel_bytes(depth, kPanelCols)});
    }
    for (; panel < block.panels(); ++panel) {
      const Columns c = columns(block, panel);
      if (is_copied(c) || (b_in_place_ && c.is_whole())) continue;
      // Packers write whole groups: behind fewer columns lie those of the next block.
      const bool is_short = job_.packs && c.vectors * kLane < kGroup;
      char* const to = right + panel_bytes(depth, c.before);
      char* const packed = is_short ? reinterpret_cast<char*>(panels_.right) : to;
      right_(job_, packed, {c.begin, c.count, c.vectors * kLane, block.k, block.units});
      if (is_short) __builtin_memcpy(to, packed, size_t(panel_bytes(depth, c.vectors * kLane)));
    }
  }

  Unit* left_of(int sliver) const {
    return reinterpret_cast<Unit*>(panels_.left) + sliver % kBlockSlivers * (kRows * kDepth);
  }

  // Computes the first of these tiles, of as many rows each, and more where they need no copy;
  // returns how many.
  int run_tiles(const Block& block, Tiles tiles, const Columns& c, void* b,
                const Soon& soon) const {
    const SliverRows r = rows(tiles.sliver);
    const Place* const from = source(block);
    const bool is_whole = c.is_whole() && has_vectors(from);
    Outputs out = outputs_of(block, r, c, is_whole);
    out.soon = soon;
    if (is_whole) {
      multiply(out, block, tiles, c, b);
      return tiles.count;
    }
    by_copy(out, from, block, tiles.sliver, c, b);
    return 1;
  }

  // Where the sums begin; null: zeros.
  const Place* source(const Block& block) const {
    return !block.is_first ? &to_ : job_.start.data ? &from_ : nullptr;
  }
  bool rounds() const { return is_narrow_ && Dot::kPerUnit > 1 && !job_.bias.data; }
  // Says whether kernels read and write the sums of whole panels where they lie.
  bool has_vectors(const Place* from) const {
    return is_narrow_ ? rounds() : to_.has_vectors && (!from || from->has_vectors);
  }
  Outputs outputs_of(const Block& block, const SliverRows& r, const Columns& c,
                     bool is_direct) const {
    Outputs out = {};
    if (is_direct)
      out = rounds() ? narrow_outputs(r, c)
                     : outputs(to_, source(block), r.begin, c.begin, c.vectors);
    if (first_factor_ && (block.is_first || !packed_sums_)) out.first = first(c);
    if (block.is_last && job_.bias.data) out.last = last() + c.before;
    return out;
  }
  Outputs narrow_outputs(const SliverRows& r, const Columns& c) const {
    Outputs out = {};
    auto* const to = static_cast<uint16_t*>(job_.c.data) + r.begin * job_.c.row_stride + c.begin;
    for (int v = 0; v < c.vectors; ++v) out.to[v] = reinterpret_cast<char*>(to + v * kLane);
    out.to_stride = job_.c.row_stride * int64_t(sizeof(uint16_t));
    out.rounds = true;
    return out;
  }

  // Multiplies slivers by one panel of b: `panel`, or where it lies.
  void multiply(const Outputs& out, const Block& block, Tiles tiles, const Columns& c,
                void* panel) const {
    const int rows_each = rows(tiles.sliver).count;
    Operands of = {left_of(tiles.sliver), panel, block.units, tiles.count, kRows * kDepth};
    if constexpr (kReadsRows<Dot>) {
      const bool copies = is_copied(c) && tiles.sliver == 0;
      if (a_in_place_ || copies || (b_in_place_ && c.is_whole()))
        return multiply_in_place(of, rows_each, out, block, tiles, c);
    }
    MicroKernel<Dot>::get(rows_each, c.vectors)(of, out);
  }
  void multiply_in_place(Operands of, int rows_each, const Outputs& out, const Block& block,
                         Tiles tiles, const Columns& c) const {
    const int64_t width = c.vectors * kLane, row = job_.a.row_stride / Dot::kPerUnit;
    const bool copies = is_copied(c) && tiles.sliver == 0;
    void* const panel = const_cast<void*>(of.b);
    const int64_t ahead = asks_near() ? kAheadBytes / Dot::kRightBytes : 0;
    InPlace in = {of, kGroup, kGroup * rows_each, width, 1, ahead, panel};
    if (a_in_place_) {
      in.of.a = left_at(rows(tiles.sliver).begin, block.k), in.of.a_sliver = rows_each * row;
      in.a_row = row, in.a_group = kGroup;
    }
    if (copies || (b_in_place_ && c.is_whole())) {
      in.of.b = right_at(block.k, c.begin);
      in.b_unit = job_.b.row_stride, in.ahead = copies && slivers_ > 1 ? 0 : width;
    }
    if (!copies)
      InPlaceKernel<Dot>::get(rows_each, c.vectors)(in, out);
    else
      copying(rows_each, c.vectors)(in, out);
  }
  auto copying(int rows, int vectors) const {
    if constexpr (Dot::kPerUnit > 1)
      return CopyingKernel<Dot, bfloat16_t>::get(rows, vectors);
    else if (job_.b.type == PTO_MATMUL_F16)
      return CopyingKernel<Dot, half>::get(rows, vectors);
    else if (job_.b.type == PTO_MATMUL_BF16)
      return CopyingKernel<Dot, bfloat16_t>::get(rows, vectors);
    else
      return CopyingKernel<Dot, float>::get(rows, vectors);
  }
  const Unit* left_at(int row, int k) const {
    constexpr int kBytes = int(sizeof(Unit)) / Dot::kPerUnit;  // of an element
    const auto* const a = static_cast<const char*>(job_.a.data);
    return reinterpret_cast<const Unit*>(a + (row * job_.a.row_stride + k) * kBytes);
  }
  const char* right_at(int k, int col) const {
    const int bytes = job_.b.type == PTO_MATMUL_F32 ? 4 : 2;
    return static_cast<const char*>(job_.b.data) + (k * job_.b.row_stride + col) * bytes;
  }

  // Goes through a copy of whole vectors: at the edge, where the layout has none, and to round.
  void by_copy(Outputs& out, const Place* from, const Block& block, int sliver, const Columns& c,
               void* b) const {
    const SliverRows r = rows(sliver);
    alignas(kLineBytes) Unit tile[kRows][kVectors * kLane];
    for (int i = 0; from && i < r.count; ++i) from->read(tile[i], r.begin + i, c.begin, c.count);
    for (int v = 0; v < c.vectors; ++v)
      out.from[v] = out.to[v] = reinterpret_cast<char*>(tile[0] + v * kLane);
    if (!from) out.from[0] = nullptr;
    out.to_stride = out.from_stride = sizeof(tile[0]);
    multiply(out, block, {sliver, 1}, c, b);
    for (int i = 0; i < r.count; ++i) {
      if (!is_narrow_)
        to_.write(tile[i], r.begin + i, c.begin, c.count);
      else if (job_.c.type == PTO_MATMUL_F16)
        write_rounded<half>(job_.c, tile[i], r.begin + i, c.begin, c.count);
      else
        write_rounded<bfloat16_t>(job_.c, tile[i], r.begin + i, c.begin, c.count);
    }
  }
  // Behind a packed b stand the sums of all blocks.
  void sum_columns(const char* panel, const Columns& c, const Block& block) {
    if (!first_factor_ || (job_.packed && !job_.packs)) return;
    add_excess<Dot>(panel, c.vectors, block.units, first_factor_, packed_sums_ && !block.is_first,
                    first(c));
  }

  void take_bias(const Columns& c) {
    const Axis cols = cols_of(job_.bias);
    const auto* const bias = static_cast<const Unit*>(job_.bias.data);
    for (int j = 0; j < c.count; ++j) last()[c.before + j] = bias[cols.at(c.begin + j)];
  }
  Unit* first(const Columns& c) const {
    if (packed_sums_) return reinterpret_cast<Unit*>(packed_sums_) + job_.packed_first + c.begin;
    return reinterpret_cast<Unit*>(panels_.first) + c.before;
  }
  Unit* last() const { return reinterpret_cast<Unit*>(panels_.last); }

  const pto_matmul_job& job_;
  const Pack left_, right_;
  BlockPanels& panels_;
  const int first_factor_;       // of the excess of b's columns; 0: there is none
  char* packed_;                 // the next block's; null: packed at each call
  char* packed_sums_ = nullptr;  // of the excess of all columns
  Place to_, from_;
  const int slivers_;
  int depth_ = kDepth;                            // units of a block
  bool is_narrow_ = false, b_is_rows_ = false;    // c, of f16 or bf16; b, rows to be packed
  bool a_in_place_ = false, b_in_place_ = false;  // read where they lie; of b whole panels
};

}  // namespace matmul
PTO_NAMESPACE_END
