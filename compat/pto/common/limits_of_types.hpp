// SPDX-License-Identifier: Apache-2.0
// std::numeric_limits of half and bfloat16_t, by their bits.
//
//     const pto::half most = std::numeric_limits<pto::half>::max();   // 65504
//
// Thread safety: constants.
#pragma once
#include <limits>

#include <pto/isa/element/numeric.hpp>

#define PTO_LIMITS(Type, Digits, Digits10, MinExponent, MaxExponent, Infinity, Epsilon)            \
  template <>                                                                                      \
  class std::numeric_limits<pto::Type> : public std::numeric_limits<float> {                       \
   public:                                                                                         \
    static constexpr int digits = Digits, digits10 = Digits10;                                     \
    static constexpr int min_exponent = MinExponent, max_exponent = MaxExponent;                   \
    static constexpr pto::Type min() noexcept { return pto::Type::FromRaw(Infinity & -Infinity); } \
    static constexpr pto::Type max() noexcept { return pto::Type::FromRaw(Infinity - 1); }         \
    static constexpr pto::Type lowest() noexcept {                                                 \
      return pto::Type::FromRaw(0x8000 | (Infinity - 1));                                          \
    }                                                                                              \
    static constexpr pto::Type epsilon() noexcept { return pto::Type::FromRaw(Epsilon); }          \
    static constexpr pto::Type infinity() noexcept { return pto::Type::FromRaw(Infinity); }        \
    static constexpr pto::Type quiet_NaN() noexcept {                                              \
      return pto::Type::FromRaw(Infinity | (Infinity & -Infinity) >> 1);                           \
    }                                                                                              \
    static constexpr pto::Type denorm_min() noexcept { return pto::Type::FromRaw(1); }             \
  };
PTO_LIMITS(half, 11, 3, -13, 16, 0x7c00, 0x1400)
PTO_LIMITS(bfloat16_t, 8, 2, -125, 128, 0x7f80, 0x3c00)
#undef PTO_LIMITS
