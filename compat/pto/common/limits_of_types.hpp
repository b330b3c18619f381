// SPDX-License-Identifier: Apache-2.0
// std::numeric_limits of half and bfloat16_t, by their bits.
//
//     const pto::half most = std::numeric_limits<pto::half>::max();   // 65504
//
// Thread safety: constants.
#pragma once
#include <limits>

#include <pto/pto-inst.hpp>

#define PTO_LIMITS(Type, Digits, MinExponent, MaxExponent, Inf, Epsilon)                        \
  template <>                                                                                   \
  class std::numeric_limits<pto::Type> : public std::numeric_limits<float> {                    \
   public:                                                                                      \
    static constexpr int digits = Digits, digits10 = (Digits - 1) * 30103 / 100000;             \
    static constexpr int max_digits10 = 2 + Digits * 30103 / 100000;                            \
    static constexpr int min_exponent = MinExponent, max_exponent = MaxExponent;                \
    static constexpr int min_exponent10 = (MinExponent - 1) * 30103 / 100000;                   \
    static constexpr int max_exponent10 = MaxExponent * 30103 / 100000;                         \
    static constexpr pto::Type min() noexcept { return pto::Type::FromRaw(Inf & -Inf); }        \
    static constexpr pto::Type max() noexcept { return pto::Type::FromRaw(Inf - 1); }           \
    static constexpr pto::Type lowest() noexcept { return pto::Type::FromRaw(Inf + 0x7fff); }   \
    static constexpr pto::Type epsilon() noexcept { return pto::Type::FromRaw(Epsilon); }       \
    static constexpr pto::Type infinity() noexcept { return pto::Type::FromRaw(Inf); }          \
    static constexpr pto::Type quiet_NaN() noexcept {                                           \
      return pto::Type::FromRaw(Inf | (Inf & -Inf) >> 1);                                       \
    }                                                                                           \
    static constexpr pto::Type signaling_NaN() noexcept { return pto::Type::FromRaw(Inf | 1); } \
    static constexpr pto::Type round_error() noexcept {                                         \
      return pto::Type::FromRaw((MaxExponent - 2) << (Digits - 1));                             \
    }                                                                                           \
    static constexpr pto::Type denorm_min() noexcept { return pto::Type::FromRaw(1); }          \
  };
PTO_LIMITS(half, 11, -13, 16, 0x7c00, 0x1400)
PTO_LIMITS(bfloat16_t, 8, -125, 128, 0x7f80, 0x3c00)
#undef PTO_LIMITS
