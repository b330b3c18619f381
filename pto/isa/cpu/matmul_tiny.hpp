// SPDX-License-Identifier: Apache-2.0
// Matmul tiny: products whose columns fit one vector and whose rows are few, as batches of small
// matrices have them: what other loops need to begin with would take longer than the product.
//
//     const bool is_done = run_tiny<FloatDot, float>(job);   // false: not for these sizes
//
// Law: that of the job; the same bits as the loops over panels.
// Thread safety: pure function on the caller's memory.
#pragma once
#include "pto/isa/cpu/access.hpp"
#include "pto/isa/cpu/matmul_dot.hpp"
#include "pto/isa/cpu/matmul_place.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

constexpr int kTinyRows = 16, kTinyDepth = 64;

// Multiplies rows of a, from `row` on, by all of b.
template <class Dot, class T, int kCount>
PTO_INLINE void multiply_tiny(const pto_matmul_job& job, int row,
                              lanes::LaneRange<typename Dot::Sum> cols) {
  using Sum = typename Dot::Sum;
  using Loose = typename VecOf<T, kLane * 4 / int(sizeof(T))>::loose;
  const T* a = static_cast<const T*>(job.a.data) + row * job.a.row_stride;
  const T* b = static_cast<const T*>(job.b.data);
  T* const c = static_cast<T*>(job.c.data) + row * job.c.row_stride;
  Sum sums[kCount] = {};
  for (int k = 0; k < job.depth; ++k, b += job.b.row_stride) {
    const Sum right = lanes::masked_load<Sum>(reinterpret_cast<const Loose*>(b), cols);
    PTO_UNROLL
    for (int r = 0; r < kCount; ++r)
      sums[r] = Dot::add(
          sums[r], bit_cast<typename Dot::Vector>(lanes::splat<Sum>(a[r * job.a.row_stride + k])),
          bit_cast<typename Dot::Vector>(right));
  }
  PTO_UNROLL
  for (int r = 0; r < kCount; ++r)
    lanes::masked_store<Sum>(reinterpret_cast<Loose*>(c + r * job.c.row_stride), sums[r], cols);
}

// T: the type of a, b and c.
template <class Dot, class T>
bool run_tiny(const pto_matmul_job& job) {
  using Sum = typename Dot::Sum;
  if constexpr (lanes::kHasMaskedAccess<Sum>) {
    constexpr int kLanes = kLane * 4 / int(sizeof(T));
    const bool is_tiny =
        job.cols <= kLanes && job.rows <= kTinyRows && job.depth <= kTinyDepth && job.depth > 0;
    if (!is_tiny || job.packed || job.packs || job.b_patches || job.start.data || job.bias.data)
      return false;
    if (job.b_pages && job.b_pages->runs.count > 0) return false;
    const int type = job.b.type;
    if (job.a.type != type || job.c.type != type) return false;
    if (!has_rows(job.a, job.a_scale, job.rows, job.depth) ||
        !has_rows(job.b, job.b_scale, job.depth, job.cols) ||
        !has_rows(job.c, {}, job.rows, job.cols))
      return false;
    const lanes::LaneRange<Sum> cols(0, job.cols);
    int row = 0;
    for (; row + 8 <= job.rows; row += 8) multiply_tiny<Dot, T, 8>(job, row, cols);
    if (job.rows & 4) multiply_tiny<Dot, T, 4>(job, (row += 4) - 4, cols);
    if (job.rows & 2) multiply_tiny<Dot, T, 2>(job, (row += 2) - 2, cols);
    if (job.rows & 1) multiply_tiny<Dot, T, 1>(job, row, cols);
    return true;
  }
  return false;
}

}  // namespace matmul
PTO_NAMESPACE_END
