// SPDX-License-Identifier: Apache-2.0
// A matrix product from panels: blocks of b that stay in the second cache, of whose columns each
// panel of a (in the first cache) makes its rows of outputs.
//
//     matmul::run(job);          // with the best way of this target; VNNI where `quads`
//
// Compiled into libpto once for each target (matmul_avx2.cpp, ...), so that no kernel pays for
// compiling these loops.
// Invariant: writes the rows x cols of job.c and nothing else; takes its memory once per thread.
// Thread safety: each thread has its own panels.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"
#include "pto/isa/host.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kDepth = 256;      // units of a block: a panel of a is 8 KB
constexpr int kBlockCols = 384;  // columns of a block: at most 384 KB
constexpr int kBlockVectors = kBlockCols / kLane;

PTO_INLINE int quotient_up(int a, int b) { return (a + b - 1) / b; }

// Part `i` of `count` about equal parts of n.
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
  Product(const pto_matmul_job& job, Pack left, Pack right)
      : job_(job),
        left_(left),
        right_(right),
        panels_(panels_of_thread()),
        to_(job.c, job.rows, job.cols),
        from_(job.start, job.rows, job.cols) {}

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
        run_block(begin, end, first, last - first, step == 0, step + 1 == steps);
      }
    }
  }

 private:
  // One panel of b: its vectors and what precedes it in the block.
  struct Columns {
    int begin, vectors, count, before;
  };
  Columns columns(int begin, int end, int panel, int panels) const {
    const int first = begin + share(end - begin, panel, panels);
    const int after = begin + share(end - begin, panel + 1, panels);
    return {first * kLane, after - first,
            smaller(job_.cols - first * kLane, (after - first) * kLane), (first - begin) * kLane};
  }

  void run_block(int begin, int end, int unit, int units, bool is_first, bool is_last) {
    const int k = unit * Dot::kPerUnit, depth = quotient_up(units, kGroup) * kGroup;
    const int panels = quotient_up(end - begin, kVectors);
    for (int p = 0; p < panels; ++p) {
      const Columns c = columns(begin, end, p, panels);
      int32_t* const panel = panels_.right + c.before * depth;
      right_(job_, panel, {c.begin, c.count, c.vectors * kLane, k, units});
      sum_columns(panel, c, units);
      if (is_last && job_.bias.data) take_bias(c);
    }
    const int slivers = quotient_up(job_.rows, kRows);
    for (int s = 0; s < slivers; ++s) {
      const int row = share(job_.rows, s, slivers), rows = share(job_.rows, s + 1, slivers) - row;
      left_(job_, panels_.left, {row, rows, rows, k, units});
      for (int p = 0; p < panels; ++p) {
        const Columns c = columns(begin, end, p, panels);
        Outputs out = {};
        if (kHasFirst<Dot>) out.first = panels_.first + c.before;
        if (is_last && job_.bias.data) out.last = panels_.last + c.before;
        const Place* const from = !is_first ? &to_ : job_.start.data ? &from_ : nullptr;
        const bool whole = c.count == c.vectors * kLane && to_.has_vectors;
        if (whole && (!from || from->has_vectors))
          in_place(out, from, row, c, rows, panels_.right + c.before * depth, units);
        else
          by_copy(out, from, row, c, rows, panels_.right + c.before * depth, units);
      }
    }
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

  // Through a copy of whole vectors, at the edge and where the layout has none.
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

  // Bytes of a count 128 too many: what their product with b then has too much.
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
  Pack left_, right_;
  Panels& panels_;
  Place to_, from_;
};

template <class Dot, int Bias>
void run_integers(const pto_matmul_job& job) {
  Product<Dot>(job, pack_left<Dot, int8_t, Bias>, pack_right<Dot, int8_t>).run();
}

struct Packs {
  Pack left, right;
};
template <class T>
Packs floats_of() {
  return {pack_left<FloatDot, T, 0>, pack_right<FloatDot, T>};
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

// `quads`: whether the CPU multiplies quads of bytes.
inline void run(const pto_matmul_job& job, bool quads) {
  if (job.a.type != PTO_MATMUL_I8) {
    Product<FloatDot>(job, floats(job.a.type).left, floats(job.b.type).right).run();
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
