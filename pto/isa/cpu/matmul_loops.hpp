// SPDX-License-Identifier: Apache-2.0
// Matmul loops: a matrix product from panels. A panel of b stays in the first cache while the rows
// of a block of a, which stays in the second, pass by.
//
//     matmul::run(job, false);   // the best way of this target; true: the CPU has VNNI
//
// libpto compiles these loops once for each target (matmul_avx2.cpp, ...), so that no kernel pays
// for compiling them.
//
// Invariant: writes the rows x cols of job.c and nothing else; takes its memory once per thread.
// Thread safety: each thread has its own panels.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/cpu/matmul_pack_bytes.hpp"
#include "pto/isa/cpu/matmul_pack_whole.hpp"
#include "pto/isa/cpu/matmul_stream.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kDepth = kVectorBytes == 64 ? 256 : 512;  // units of a block: a panel of b is 32 KB
constexpr int kBlockCols = 1024;                        // columns of a block
constexpr int kBlockRows = 96;                          // rows of a block: 192 KB
constexpr int kBlockSlivers = kBlockRows / kRows;
constexpr int kSmallUnits = 16 << 10;  // of a b that is read where it lies
constexpr int kNearUnits = 8 << 10;    // of outputs that need no prefetching
constexpr int kFewRows = 48;           // of an a that is read where it lies if b is packed
constexpr int kUnitsAhead = 16;        // of a panel in place, from those read to those asked for

struct Panels {
  int32_t left[kBlockRows * kDepth];
  int32_t right[kDepth * kBlockCols];
  int64_t beyond[kGroup];                       // whole groups of columns are written
  int64_t first[kBlockCols], last[kBlockCols];  // as outputs: of 32 bits in the first halves
};

class Workspace {
 public:
  ~Workspace() { pto_free(panels_); }
  Panels& get() {
    if (!panels_) panels_ = static_cast<Panels*>(pto_malloc(sizeof(Panels)));
    if (!panels_) __builtin_trap();  // as a tile without memory
    return *panels_;
  }

 private:
  Panels* panels_ = nullptr;
};
inline Panels& panels_of_thread() {
  static thread_local Workspace workspace;
  return workspace.get();
}

using Pack = void (*)(const pto_matmul_job&, void*, const Part&);

template <class Dot>
class Product {
  using Unit = typename Dot::Unit;
  using Place = PlaceOf<Unit>;
  static constexpr int kLane = kDotLanes<Dot>, kBlockVectors = kBlockCols / kLane;
  static constexpr int kDepth = matmul::kDepth * 4 / int(sizeof(Unit));

 public:
  Product(const pto_matmul_job& job, Pack left, Pack right, int first_factor = 0)
      : job_(job),
        left_(left),
        right_(right),
        panels_(panels_of_thread()),
        first_factor_(first_factor),
        packed_(static_cast<char*>(job.packed)),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols),
        is_large_(int64_t(job.rows) * job.cols > kNearUnits) {
    if (!kSame<Dot, FloatDot>) return;
    const bool is_ready = job.packed && !job.packs;
    if (!is_ready && !job.b.data) return;
    has_float_rows_ = !is_ready && has_float_rows(job.b, job.b_scale, job.depth, job.cols);
    is_in_place_ = (is_ready ? job.rows <= kFewRows
                             : has_float_rows_ && !job.packed &&
                                   int64_t(job.depth) * job.cols <= kSmallUnits) &&
                   has_float_rows(job.a, job.a_scale, job.rows, job.depth);
  }

  void run() {
    const int units = quotient_up(job_.depth, Dot::kPerUnit);
    const int steps = units > kDepth ? quotient_up(units, kDepth) : 1;
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
  // One panel of a; the rows are cut into parts as equal as possible.
  struct Rows {
    int begin, count;
  };
  Rows rows(int sliver) const { return rows_[sliver % kBlockSlivers]; }
  void cut_rows(int first, int last, int slivers) {  // of these: two divisions each
    for (int s = first; s < last; ++s) {
      const int begin = share(job_.rows, s, slivers);
      rows_[s % kBlockSlivers] = {begin, share(job_.rows, s + 1, slivers) - begin};
    }
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
      sum_columns(right + panel_bytes(depth, c.before), c, block.units);
      if (block.is_last && job_.bias.data) take_bias(c);
    }
    if (job_.packs) return;
    const int slivers = quotient_up(job_.rows, kRows);
    for (int first = 0; first < slivers; first += kBlockSlivers) {
      const int last = smaller(slivers, first + kBlockSlivers);
      cut_rows(first, last, slivers);
      for (int s = first; s < last && !is_in_place_; ++s) {
        const Rows r = rows(s);
        left_(job_, left_of(s), {r.begin, r.count, r.count, block.k, block.units});
      }
      for (int p = 0; p < panels; ++p) {
        const Columns c = columns(block, p);
        // The tiles ask for the next panel, which comes from far where b was packed long ago.
        Soon soon = {};
        if (job_.packed && p + 1 < panels) {
          soon = {right + panel_bytes(depth, columns(block, p + 1).before),
                  quotient_up(c.vectors * kLane * Dot::kRightBytes, last - first)};
        }
        for (int s = first; s < last; ++s) {
          if (s + 1 < last) expect(rows(s + 1), c);
          run_tile(block, s, c, right + panel_bytes(depth, c.before), soon);
          soon.at += block.units * soon.step;
        }
      }
    }
  }

  static int64_t panel_bytes(int depth, int cols) {
    return int64_t(depth) * cols * Dot::kRightBytes;
  }

  void pack_panels(const Block& block, char* right, int depth) const {
    int panel = has_float_rows_ ? pack_rows(block, right, depth) : 0;
    if constexpr (!kSame<Dot, FloatDot>) {  // all whole panels at once
      constexpr int kWidth = kVectors * kLane;
      const int begin = block.begin * kLane;
      panel = (smaller(block.end * kLane, job_.cols) - begin) / kWidth;
      if (panel > 0)
        right_(job_, right,
               {begin, panel * kWidth, kWidth, block.k, block.units, panel_bytes(depth, kWidth)});
    }
    for (; panel < block.panels(); ++panel) {
      const Columns c = columns(block, panel);
      right_(job_, right + panel_bytes(depth, c.before),
             {c.begin, c.count, c.vectors * kLane, block.k, block.units});
    }
  }

  // Packs the whole panels of b in the order in which it lies; returns how many.
  int pack_rows(const Block& block, void* right, int depth) const {
    constexpr int kWidth = kVectors * kLane, kRowsAtOnce = 8;
    const int begin = block.begin * kLane, end = smaller(block.end * kLane, job_.cols);
    const int panels = (end - begin) / kWidth;
    if (is_in_place_) return panels;
    for (int unit = 0; unit < block.units; unit += kRowsAtOnce) {
      const int some = smaller(block.units - unit, kRowsAtOnce);
      const int32_t* from = right_at(block.k + unit, begin);
      int32_t* to = static_cast<int32_t*>(right) + unit * kWidth;
      for (int p = 0; p < panels; ++p, from += kWidth, to += kWidth * depth)
        for (int u = 0; u < some; ++u)
          __builtin_memcpy(to + u * kWidth, from + u * job_.b.row_stride, kWidth * 4);
    }
    return panels;
  }

  Unit* left_of(int sliver) const {
    return reinterpret_cast<Unit*>(panels_.left) + sliver % kBlockSlivers * (kRows * kDepth);
  }

  // Prefetches the outputs of a tile, which lie in short runs far apart.
  void expect(const Rows& r, const Columns& c) const {
    if (!is_large_ || !to_.has_vectors) return;
    const char* first = to_.vector(r.begin, c.begin);
    const char* last = to_.vector(r.begin, c.begin + (c.vectors - 1) * kLane) + kVectorBytes - 1;
    const int64_t stride = to_.rows.stride * int64_t(sizeof(Unit));
    for (int i = 0; i < r.count; ++i, first += stride, last += stride) {
      __builtin_prefetch(first, 1);
      __builtin_prefetch(last, 1);
    }
  }

  void run_tile(const Block& block, int sliver, const Columns& c, const void* b,
                const Soon& soon) const {
    const Rows r = rows(sliver);
    const Place* const from = !block.is_first ? &to_ : job_.start.data ? &from_ : nullptr;
    const bool is_whole = c.is_whole() && to_.has_vectors && (!from || from->has_vectors);
    Outputs out = is_whole ? outputs(to_, from, r.begin, c.begin, c.vectors) : Outputs{};
    out.soon = soon;
    if (first_factor_) out.first = first() + c.before;
    if (block.is_last && job_.bias.data) out.last = last() + c.before;
    if (is_whole)
      multiply(out, block, sliver, c, b);
    else
      by_copy(out, from, block, sliver, c, b);
  }

  // Multiplies a sliver by one panel of b: `panel`, or where it lies.
  void multiply(const Outputs& out, const Block& block, int sliver, const Columns& c,
                const void* panel) const {
    const Rows r = rows(sliver);
    if (!is_in_place_) {
      MicroKernel<Dot>::get(r.count, c.vectors)(left_of(sliver), panel, block.units, out);
      return;
    }
    const int64_t width = c.vectors * kLane;
    InPlace in = {left_at(r.begin, block.k), panel, job_.a.row_stride, width, block.units, 1,
                  width * kUnitsAhead};
    if (!job_.packed && c.is_whole()) {
      in.b = right_at(block.k, c.begin);
      in.b_unit = job_.b.row_stride;
      in.ahead = width;
    }
    InPlaceKernel<Dot>::get(r.count, c.vectors)(in, out);
  }
  const int32_t* left_at(int row, int k) const {
    return static_cast<const int32_t*>(job_.a.data) + row * job_.a.row_stride + k;
  }
  const int32_t* right_at(int k, int col) const {
    return static_cast<const int32_t*>(job_.b.data) + k * job_.b.row_stride + col;
  }

  // Goes through a copy of whole vectors, at the edge and where the layout has none.
  void by_copy(Outputs& out, const Place* from, const Block& block, int sliver, const Columns& c,
               const void* b) const {
    const Rows r = rows(sliver);
    Unit tile[kRows][kVectors * kLane];
    for (int i = 0; from && i < r.count; ++i) from->read(tile[i], r.begin + i, c.begin, c.count);
    for (int v = 0; v < c.vectors; ++v)
      out.from[v] = out.to[v] = reinterpret_cast<char*>(tile[0] + v * kLane);
    if (!from) out.from[0] = nullptr;
    out.to_stride = out.from_stride = sizeof(tile[0]);
    multiply(out, block, sliver, c, b);
    for (int i = 0; i < r.count; ++i) to_.write(tile[i], r.begin + i, c.begin, c.count);
  }

  // Bytes of a whose sign was turned count 128 too many or too few: sums up what their product with
  // b then has in excess.
  void sum_columns(const char* panel, const Columns& c, int units) {
    if (!first_factor_) return;
    for (int v = 0; v < c.vectors; ++v) {
      typename Dot::Sum sum = {};
      const char* b = panel + v * kLane * Dot::kRightBytes;
      for (int u = 0; u < units; ++u, b += c.vectors * kLane * Dot::kRightBytes)
        sum = Dot::add(sum, lanes::splat<typename Dot::Vector>(0x01010101), Dot::load(b));
      sum = sum * lanes::splat<typename Dot::Sum>(
                      typename RemoveReference<decltype(sum[0])>::type(first_factor_));
      __builtin_memcpy(first() + c.before + v * kLane, &sum, sizeof sum);
    }
  }

  void take_bias(const Columns& c) {
    const Axis cols = cols_of(job_.bias);
    const auto* const bias = static_cast<const Unit*>(job_.bias.data);
    for (int j = 0; j < c.count; ++j) last()[c.before + j] = bias[cols.at(c.begin + j)];
  }
  Unit* first() const { return reinterpret_cast<Unit*>(panels_.first); }
  Unit* last() const { return reinterpret_cast<Unit*>(panels_.last); }

  const pto_matmul_job& job_;
  const Pack left_, right_;
  Panels& panels_;
  const int first_factor_;  // of the excess of b's columns; 0: there is none
  char* packed_;            // the next block's; null: packed at each call
  Place to_, from_;
  Rows rows_[kBlockSlivers];     // of the slivers of a block
  const bool is_large_;          // outputs lie beyond the first cache
  bool has_float_rows_ = false;  // b
  // All of a is read where it lies, and so are whole panels of b unless they are packed.
  bool is_in_place_ = false;
};

struct Packs {
  Pack left, right;
};
template <class T>
Packs floats_of() {
  return {pack_left<T>, pack_right<T>};
}
inline Packs floats(int type) {
  switch (type) {
    case PTO_MATMUL_F16:
      return floats_of<half>();
    case PTO_MATMUL_BF16:
      return floats_of<bfloat16_t>();
    case PTO_MATMUL_E4M3:
      return floats_of<float8_e4m3_t>();
    case PTO_MATMUL_E5M2:
      return floats_of<float8_e5m2_t>();
    case PTO_MATMUL_HIF8:
      return floats_of<hifloat8_t>();
    case PTO_MATMUL_E2M1X2:
      return floats_of<float4_e2m1x2_t>();
    case PTO_MATMUL_E1M2X2:
      return floats_of<float4_e1m2x2_t>();
    default:
      return floats_of<float>();
  }
}

// Runs b's columns of T against the rows of a type that Dot's packers take.
template <class Dot, class T>
void run_bytes(const pto_matmul_job& job) {
  const bool is_signed = job.a.type == PTO_MATMUL_I8;
  // Quads multiply unsigned by signed: a takes the sign that b has not.
  const int excess = Dot::kPerUnit < 4 || is_signed != kSame<T, int8_t> ? 0
                     : is_signed                                        ? -128
                                                                        : 128;
  Product<Dot>(job, is_signed ? pack_left_bytes<Dot, int8_t, T> : pack_left_bytes<Dot, uint8_t, T>,
               pack_right_bytes<Dot, T>, excess)
      .run();
}
// For bf16, both.
template <class Pairs>
void run_pairs(const pto_matmul_job& job) {
  using Dot = Bf16Dot<Pairs>;
  Product<Dot>(job, pack_left_bytes<Dot, int16_t, int16_t>, pack_right_bytes<Dot, int16_t>).run();
}
template <class Dot>
void run_whole(const pto_matmul_job& job) {
  Product<Dot>(job, pack_whole_left<typename Dot::Unit>, pack_whole_right<typename Dot::Unit>)
      .run();
}

// `quads`: the CPU multiplies quads of bytes.
inline void run(const pto_matmul_job& job, bool quads) {
  static_cast<void>(quads);
  switch (job.a.type) {
    case PTO_MATMUL_I8:
    case PTO_MATMUL_U8:
#if defined(PTO_TARGET_AVX512)
      if (quads)
        return job.b.type == PTO_MATMUL_I8 ? run_bytes<QuadDot<int8_t>, int8_t>(job)
                                           : run_bytes<QuadDot<uint8_t>, uint8_t>(job);
#endif
      return job.b.type == PTO_MATMUL_I8 ? run_bytes<PairDot<int8_t>, int8_t>(job)
                                         : run_bytes<PairDot<uint8_t>, uint8_t>(job);
    case PTO_MATMUL_I16:
      return Product<PairDot<int16_t>>(job, pack_left_bytes<PairDot<int16_t>, int16_t, int16_t>,
                                       pack_right_bytes<PairDot<int16_t>, int16_t>)
          .run();
    case PTO_MATMUL_I32:
      return run_whole<WrappingDot<int32_t>>(job);
    case PTO_MATMUL_I64:
      return run_whole<WrappingDot<int64_t>>(job);
    case PTO_MATMUL_F64:
      return run_whole<DoubleDot>(job);
    default:
      if (job.rows <= kRows && Stream(job).run()) return;
      Product<FloatDot>(job, floats(job.a.type).left, floats(job.b.type).right).run();
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
