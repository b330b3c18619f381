// SPDX-License-Identifier: Apache-2.0
// Matmul excess: bytes of a whose sign was turned count 128 too many or too few, so a product with
// them has that much of the sum of each column of b in excess.
//
//     add_excess<Dot>(panel, vectors, units, -128, false, sums);
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_dot.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// Sums up `factor` times each column of a panel of b; goes on from the sums that are there, or from
// zeros.
template <class Dot>
void add_excess(const char* panel, int vectors, int units, int factor, bool go_on,
                typename Dot::Unit* sums) {
  using Sum = typename Dot::Sum;
  using Element = typename RemoveReference<decltype(Sum()[0])>::type;
  constexpr int kBytes = kDotLanes<Dot> * Dot::kRightBytes;
  for (int v = 0; v < vectors; ++v, sums += kDotLanes<Dot>) {
    Sum sum = {}, before = {};
    const char* b = panel + v * kBytes;
    for (int u = 0; u < units; ++u, b += vectors * kBytes)
      sum = Dot::add(sum, lanes::splat<typename Dot::Vector>(0x01010101), Dot::load(b));
    if (go_on) __builtin_memcpy(&before, sums, sizeof before);
    sum = before + sum * lanes::splat<Sum>(Element(factor));
    __builtin_memcpy(sums, &sum, sizeof sum);
  }
}

}  // namespace matmul
PTO_NAMESPACE_END
