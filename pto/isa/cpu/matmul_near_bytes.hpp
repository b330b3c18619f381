// SPDX-License-Identifier: Apache-2.0
// Matmul near bytes: signed bytes as the numbers that a way multiplies, floats or bf16, both of
// which hold them exactly.
//
//     NumberOf<FloatDot>::type row[128];
//     widen_bytes(from, row, 128);
//
// Thread safety: pure functions on the caller's memory.
#pragma once
#include "pto/isa/cpu/matmul_dot.hpp"

PTO_NAMESPACE_BEGIN
namespace matmul {

// The type of the elements that a way multiplies.
template <class Dot>
struct NumberOf : TypeIs<typename Choose<Dot::kPerUnit == 1, float, bfloat16_t>::type> {};

// Widens bytes, which floats and bf16 hold exactly.
inline void widen_bytes(const int8_t* from, float* to, int count) {
  int i = 0;
  for (; i + kLane <= count; i += kLane)
    lanes::store<kLane>(to + i, lanes::convert<float>(lanes::load<kLane>(from + i)));
  for (; i < count; ++i) to[i] = float(from[i]);
}
template <int... I>
PTO_INLINE auto upper_halves(Vec<float, kLane> low, Vec<float, kLane> high, Indices<I...>) {
  using Words = Vec<uint16_t, 2 * kLane>;
  return __builtin_shufflevector(bit_cast<Words>(low), bit_cast<Words>(high), 2 * I + 1 ...);
}
inline void widen_bytes(const int8_t* from, bfloat16_t* to, int count) {
  int i = 0;
  for (; i + 2 * kLane <= count; i += 2 * kLane) {
    const auto low = lanes::convert<float>(lanes::load<kLane>(from + i));
    const auto high = lanes::convert<float>(lanes::load<kLane>(from + i + kLane));
    const auto both = upper_halves(low, high, typename IndicesTo<2 * kLane>::type());
    __builtin_memcpy(to + i, &both, sizeof both);
  }
  for (; i < count; ++i) to[i] = bfloat16_t(float(from[i]));
}

}  // namespace matmul
PTO_NAMESPACE_END
