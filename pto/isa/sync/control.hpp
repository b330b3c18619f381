// SPDX-License-Identifier: Apache-2.0
// Control: the control register of a core.
//
//     set_ctrl(sbitset1(get_ctrl(), 48));   // for sources of the simulator: quantising saturates
//
// Invariant: a kernel in general has no such register and reads 0. A source of the simulator has
// one for each thread, the word of its task; only its bit kSaturates means something.
// Thread safety: the register is the calling thread's.
#pragma once
#include "pto/isa/tile/rules.hpp"

PTO_NAMESPACE_BEGIN
namespace control {

// Infinite results of quantising become the largest number, NaN becomes 0.
constexpr int kSaturates = 48;

template <bool Exists>
struct Register {
  static inline thread_local uint64_t bits = 0;
  static PTO_INLINE uint64_t get() { return bits; }
  static PTO_INLINE void set(uint64_t value) { bits = value; }
};
template <>
struct Register<false> {
  static constexpr PTO_INLINE uint64_t get() { return 0; }
  static PTO_INLINE void set(uint64_t) {}
};
PTO_INLINE uint64_t get() { return Register<Rules::kHasControlRegister>::get(); }
PTO_INLINE void set(uint64_t value) { Register<Rules::kHasControlRegister>::set(value); }

PTO_INLINE SaturationMode saturation() {
  return get() >> kSaturates & 1 ? SaturationMode::ON : SaturationMode::OFF;
}

}  // namespace control

PTO_INLINE uint64_t get_ctrl() { return control::get(); }
PTO_INLINE void set_ctrl(uint64_t bits) { control::set(bits); }
constexpr PTO_INLINE uint64_t sbitset0(uint64_t bits, int bit) {
  return bits & ~(uint64_t(1) << bit);
}
constexpr PTO_INLINE uint64_t sbitset1(uint64_t bits, int bit) { return bits | uint64_t(1) << bit; }

PTO_NAMESPACE_END
