// SPDX-License-Identifier: Apache-2.0
// Program runs: the runs of memory that a product of a compiled program asks for ahead.
//
//     const pto_runs next = runs_of(keys);     // rows, columns, or all of a tensor
//     const pto_runs some = share_of(2, 4, [&](int64_t) { return next; });   // the third of four
//
// Thread safety: pure functions.
#pragma once
#include "pto/abi/program.h"
#include "pto/isa/reduce/region_reductions.hpp"

PTO_NAMESPACE_BEGIN
namespace program {

// Returns the rows, or else the columns, of a matrix whose elements lie together; all of a tensor
// without gaps.
PTO_INLINE pto_runs runs_of(const pto_tensor& m) {
  const int64_t item = m.type_bits / 8;
  const int down = m.rank - 2, across = m.rank - 1;
  if (m.rank > 2) {
    int64_t count = 1, last = 0;
    for (int axis = 0; axis < m.rank; ++axis)
      count *= m.sizes[axis], last += (m.sizes[axis] - 1) * m.strides[axis];
    if (count == 0 || last != count - 1) return {};
    return {m.data, count * item, count * item, 1, nullptr, 0, 0};
  }
  if (m.strides[across] == 1)
    return {m.data, m.strides[down] * item, m.sizes[across] * item, m.sizes[down], nullptr, 0, 0};
  if (m.strides[down] == 1)
    return {m.data, m.strides[across] * item, m.sizes[down] * item, m.sizes[across], nullptr, 0, 0};
  return {};
}
// Returns the pages that a tensor is a part of; a page alone is cut to the tensor's bytes.
PTO_INLINE pto_runs runs_of(const pto_runs& pages, const pto_tensor& part) {
  int64_t last = 0;
  for (int axis = 0; axis < part.rank; ++axis) last += (part.sizes[axis] - 1) * part.strides[axis];
  pto_runs runs = pages;
  const int64_t bytes = (last + 1) * (part.type_bits / 8);
  if (runs.count == 1 && bytes < runs.bytes) runs.bytes = bytes > 0 ? bytes : 0;
  return runs;
}

// Returns the share of iteration k, of `count`, in what all of them read next; runs(k) is what one
// of them reads. Where their rows lie beside each other, shares are rows of all.
template <class Runs>
PTO_INLINE pto_runs share_of(int64_t k, int64_t count, const Runs& runs) {
  const pto_runs first = runs(0), second = count > 1 ? runs(1) : pto_runs{};
  const auto* const data = static_cast<const char*>(first.data);
  if (!data || second.data != data + first.bytes || first.bytes * count > first.distance)
    return runs(k);
  const int64_t begin = first.count * k / count, end = first.count * (k + 1) / count;
  return {data + begin * first.distance,
          first.distance,
          first.bytes * count,
          end - begin,
          nullptr,
          0,
          0};
}

}  // namespace program
PTO_NAMESPACE_END
