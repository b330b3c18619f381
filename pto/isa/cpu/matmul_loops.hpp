// SPDX-License-Identifier: Apache-2.0
// Matmul loops: a matrix product from panels. Blocks of b stay in the second cache; each panel of a
// (in the first cache) makes its rows of outputs from a block's columns.
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

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kDepth = 256;            // units of a block: a panel of a is at most 8 KB
constexpr int kBlockCols = 384;        // columns of a block: at most 384 KB
constexpr int kNearUnits = 128 << 10;  // units of a and c, which a second cache holds beside b
constexpr int kBlockVectors = kBlockCols / kLane;

PTO_INLINE int quotient_up(int a, int b) { return (a + b - 1) / b; }

// Returns part `i` of `count` about equal parts of n.
PTO_INLINE int share(int n, int i, int count) { return int(int64_t(n) * i / count); }

struct Panels {
  int32_t left[kRows * kDepth];
  int32_t right[kDepth * kBlockCols];
  int32_t beyond[kGroup];  // whole groups of columns are written
  int32_t first[kBlockCols], last[kBlockCols];
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

// An accumulator: 4-byte elements in any layout.
struct Place {
  int32_t* data;
  Axis rows, cols;
  bool has_vectors;

  Place(const pto_matmul_matrix& m, int row_count, int col_count)
      : data(static_cast<int32_t*>(m.data)), rows(rows_of(m)), cols(cols_of(m)) {
    has_vectors = cols.stride == 1 && (cols.box % kLane == 0 || cols.box >= col_count) &&
                  (rows.box >= row_count || rows.box_stride == rows.box * rows.stride);
  }
  int32_t* at(int row, int col) const { return data + rows.at(row) + cols.at(col); }
};

using Pack = void (*)(const pto_matmul_job&, int32_t*, const Part&);

template <class Dot>
class Product {
 public:
  Product(const pto_matmul_job& job, Pack left, Pack expect, Pack right)
      : job_(job),
        left_(left),
        expect_(expect),
        right_(right),
        panels_(panels_of_thread()),
        packed_(reinterpret_cast<int32_t*>(job.packed)),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols),
        is_large_(int64_t(job.rows) * (job.cols + job.depth / Dot::kPerUnit) > kNearUnits) {}

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
  };
  Columns columns(const Block& block, int panel) const {
    const int vectors = block.end - block.begin, panels = block.panels();
    const int first = share(vectors, panel, panels), after = share(vectors, panel + 1, panels);
    const int begin = (block.begin + first) * kLane, width = (after - first) * kLane;
    return {begin, after - first, smaller(job_.cols - begin, width), first * kLane};
  }
  // One panel of a; the rows are cut into parts as equal as possible.
  struct Rows {
    int begin, count;
  };
  int slivers() const { return quotient_up(job_.rows, kRows); }
  Rows rows(int sliver) const {
    const int begin = share(job_.rows, sliver, slivers());
    return {begin, share(job_.rows, sliver + 1, slivers()) - begin};
  }

  void run_block(const Block& block) {
    const int depth = quotient_up(block.units, kGroup) * kGroup, panels = block.panels();
    int32_t* const right = packed_ ? packed_ : panels_.right;
    if (packed_) packed_ += int64_t(depth) * (block.end - block.begin) * kLane;
    for (int p = 0; p < panels; ++p) {
      const Columns c = columns(block, p);
      int32_t* const panel = right + c.before * depth;
      if (!job_.packed || job_.packs)
        right_(job_, panel, {c.begin, c.count, c.vectors * kLane, block.k, block.units});
      sum_columns(panel, c, block.units);
      if (block.is_last && job_.bias.data) take_bias(c);
    }
    if (job_.packs) return;
    for (int s = 0; s < slivers(); ++s) {
      const Rows r = rows(s);
      left_(job_, panels_.left, {r.begin, r.count, r.count, block.k, block.units});
      for (int p = 0; p < panels; ++p) {
        expect_next(block, s, p);
        run_tile(block, r, columns(block, p), right, depth);
      }
    }
  }

  void run_tile(const Block& block, const Rows& r, const Columns& c, const int32_t* right,
                int depth) const {
    Outputs out = {};
    if (kHasFirst<Dot>) out.first = panels_.first + c.before;
    if (block.is_last && job_.bias.data) out.last = panels_.last + c.before;
    const Place* const from = !block.is_first ? &to_ : job_.start.data ? &from_ : nullptr;
    const int32_t* const b = right + c.before * depth;
    const bool is_whole = c.count == c.vectors * kLane && to_.has_vectors;
    if (is_whole && (!from || from->has_vectors))
      in_place(out, from, r.begin, c, r.count, b, block.units);
    else
      by_copy(out, from, r.begin, c, r.count, b, block.units);
  }

  // Prefetches the next tile's outputs and a part of the next panel of a: both lie in short runs
  // far apart, which no prefetcher of a CPU follows.
  void expect_next(const Block& block, int sliver, int panel) const {
    const int panels = block.panels();
    const bool is_end = panel + 1 == panels;
    if (!is_large_ || (is_end && sliver + 1 == slivers())) return;
    const Rows r = rows(is_end ? sliver + 1 : sliver);
    const Columns c = columns(block, is_end ? 0 : panel + 1);
    for (int v = 0; v < c.vectors && to_.has_vectors; ++v)
      for (int i = 0; i < r.count; ++i)
        __builtin_prefetch(to_.at(r.begin + i, c.begin + v * kLane), 1);
    if (sliver + 1 == slivers()) return;
    const Rows next = rows(sliver + 1);
    const int groups = quotient_up(block.units, kGroup), first = share(groups, panel, panels);
    expect_(job_, nullptr,
            {next.begin, next.count, next.count, block.k + first * kGroup * Dot::kPerUnit,
             (share(groups, panel + 1, panels) - first) * kGroup});
  }

  void in_place(Outputs& out, const Place* from, int row, const Columns& c, int rows,
                const int32_t* b, int units) const {
    for (int v = 0; v < c.vectors; ++v) {
      out.to[v] = reinterpret_cast<char*>(to_.at(row, c.begin + v * kLane));
      if (from) out.from[v] = reinterpret_cast<const char*>(from->at(row, c.begin + v * kLane));
    }
    out.to_stride = to_.rows.stride * 4;
    if (from) out.from_stride = from->rows.stride * 4;
    MicroKernel<Dot>::get(rows, c.vectors)(panels_.left, b, units, out);
  }

  // Goes through a copy of whole vectors, at the edge and where the layout has none.
  void by_copy(Outputs& out, const Place* from, int row, const Columns& c, int rows,
               const int32_t* b, int units) const {
    int32_t tile[kRows][kVectors * kLane] = {};
    for (int r = 0; from && r < rows; ++r)
      for (int j = 0; j < c.count; ++j) tile[r][j] = *from->at(row + r, c.begin + j);
    for (int v = 0; v < c.vectors; ++v)
      out.from[v] = out.to[v] = reinterpret_cast<char*>(tile[0] + v * kLane);
    if (!from) out.from[0] = nullptr;
    out.to_stride = out.from_stride = sizeof(tile[0]);
    MicroKernel<Dot>::get(rows, c.vectors)(panels_.left, b, units, out);
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < c.count; ++j) *to_.at(row + r, c.begin + j) = tile[r][j];
  }

  template <class D>
  static constexpr bool kHasFirst = D::kPerUnit == 4;

  // Bytes of a count 128 too many: sums the excess that their product with b then has.
  void sum_columns(const int32_t* panel, const Columns& c, int units) {
    if constexpr (kHasFirst<Dot>) {
      for (int v = 0; v < c.vectors; ++v) {
        Units sum = {};
        const int32_t* b = panel + v * kLane;
        for (int u = 0; u < units; ++u, b += c.vectors * kLane)
          sum = Dot::add(sum, lanes::splat<Units>(0x01010101u),
                         *reinterpret_cast<const LooseUnits*>(b));
        *reinterpret_cast<LooseUnits*>(panels_.first + c.before + v * kLane) = sum * uint32_t(-128);
      }
    }
  }

  void take_bias(const Columns& c) {
    const Axis cols = cols_of(job_.bias);
    const auto* const bias = static_cast<const int32_t*>(job_.bias.data);
    for (int j = 0; j < c.count; ++j) panels_.last[c.before + j] = bias[cols.at(c.begin + j)];
  }

  const pto_matmul_job& job_;
  Pack left_, expect_, right_;
  Panels& panels_;
  int32_t* packed_;  // the next block's; null: packed at each call
  Place to_, from_;
  bool is_large_;  // beyond the second cache
};

template <class Dot, int Bias>
void run_integers(const pto_matmul_job& job) {
  Product<Dot>(job, pack_left<Dot, int8_t, Bias>, expect_left<Dot, int8_t>, pack_right<Dot, int8_t>)
      .run();
}

struct Packs {
  Pack left, expect, right;
};
template <class T>
Packs floats_of() {
  return {pack_left<FloatDot, T, 0>, expect_left<FloatDot, T>, pack_right<FloatDot, T>};
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

// `quads`: the CPU multiplies quads of bytes.
inline void run(const pto_matmul_job& job, bool quads) {
  if (job.a.type != PTO_MATMUL_I8) {
    const Packs a = floats(job.a.type);
    Product<FloatDot>(job, a.left, a.expect, floats(job.b.type).right).run();
    return;
  }
#if defined(PTO_TARGET_AVX512)
  if (quads) return run_integers<QuadDot, -128>(job);
#endif
  static_cast<void>(quads);
  run_integers<PairDot, 0>(job);
}

}  // namespace matmul
PTO_NAMESPACE_END
