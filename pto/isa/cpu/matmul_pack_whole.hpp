// SPDX-License-Identifier: Apache-2.0
// Matmul pack whole: gathers parts of the operands of a product of f64, i32 or i64 into panels,
// whose units are the elements as they are.
//
//     pack_whole_left<int64_t>(job, panel, part);    // int64_t: the bits of f64 too
//
// Invariant: only valid elements are read.
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_pack.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

template <class Unit>
void pack_whole_left(const pto_matmul_job& job, void* panel, const Part& part) {
  const Operand<Unit> from(job.a, job.a_scale, true, job.depth);
  const bool is_run = from.has_depth_runs(kGroup);
  auto* to = static_cast<Unit*>(panel);
  for (int k = part.k; k < part.k + part.units; k += kGroup)
    for (int r = 0; r < part.lines; ++r, to += kGroup) {
      const int count = smaller(from.end - k, kGroup);
      const Unit* const data = from.data + from.lines.at(part.line + r);
      if (is_run && count == kGroup)
        __builtin_memcpy(to, data + from.depth.at(k), sizeof(Unit) * kGroup);
      else
        for (int i = 0; i < count; ++i) to[i] = data[from.depth.at(k + i)];
    }
}

// Columns as runs go eight at a time, as their cache lines may share a set of the first cache.
template <class Unit>
void pack_whole_right(const pto_matmul_job& job, void* panel, const Part& part) {
  const Operand<Unit> from(job.b, job.b_scale, false, job.depth);
  const bool across = from.lines.stride == 1 && from.lines.box >= part.line + part.lines;
  auto* to = static_cast<Unit*>(panel);
  const int64_t next = part.next / int64_t(sizeof(Unit));
  for (int k = 0; across && k < part.units; ++k) {
    const Unit* const data = from.data + from.lines.at(part.line) + from.depth.at(part.k + k);
    for (int j = 0, p = 0; j < part.lines; j += part.width, ++p) {
      const size_t count = size_t(smaller(part.lines - j, part.width));
      __builtin_memcpy(to + p * next + int64_t(k) * part.width, data + j, count * sizeof(Unit));
    }
  }
  const int step = smaller(part.width, kGroup);
  for (int j = 0; !across && j < part.lines; j += step) {
    Unit* const column = to + j / part.width * next + j % part.width;
    const int count = smaller(part.lines - j, step);
    int64_t at[kGroup];
    for (int i = 0; i < count; ++i) at[i] = from.lines.at(part.line + j + i);
    for (int k = 0; k < part.units; ++k) {
      const Unit* const data = from.data + from.depth.at(part.k + k);
      for (int i = 0; i < count; ++i) column[int64_t(k) * part.width + i] = data[at[i]];
    }
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
