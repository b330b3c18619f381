// SPDX-License-Identifier: Apache-2.0
// Size arithmetic: 64 bits, checked. Every evaluator of sizes computes with it.
//
//     int64_t bytes = 0;
//     calculate(DimOp::Mul, rows, 4, &bytes);   // SizeFault::None, or the reason of no value
//
// Division and remainder floor. The header is C++17 without library types, since adapters compile
// it beside a framework's headers. The numbers of DimOp equal PTO_DIM_* in abi/operator.h.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

namespace pto {

enum class DimOp : uint8_t { Constant, Symbol, Add, Sub, Mul, FloorDiv, Mod, Min, Max, Broadcast };

enum class SizeFault : uint8_t { None, Overflow, ZeroDivision, Mismatch };

inline SizeFault divide_sizes(DimOp op, int64_t a, int64_t b, int64_t* result) {
  if (b == 0) return SizeFault::ZeroDivision;
  if (b == -1) {  // INT64_MIN / -1 traps
    *result = 0;
    const bool fits = op == DimOp::Mod || !__builtin_sub_overflow(int64_t{0}, a, result);
    return fits ? SizeFault::None : SizeFault::Overflow;
  }
  const int64_t rest = a % b;
  const bool below = rest != 0 && (rest < 0) != (b < 0);
  *result = op == DimOp::Mod ? rest + (below ? b : 0) : a / b - (below ? 1 : 0);
  return SizeFault::None;
}

// Computes a op b; *result is set where the answer is None. Broadcast: equal sizes, or one is 1.
inline SizeFault calculate(DimOp op, int64_t a, int64_t b, int64_t* result) {
  bool overflow = false;
  switch (op) {
    case DimOp::Add:
      overflow = __builtin_add_overflow(a, b, result);
      break;
    case DimOp::Sub:
      overflow = __builtin_sub_overflow(a, b, result);
      break;
    case DimOp::Mul:
      overflow = __builtin_mul_overflow(a, b, result);
      break;
    case DimOp::FloorDiv:
    case DimOp::Mod:
      return divide_sizes(op, a, b, result);
    case DimOp::Min:
      *result = a < b ? a : b;
      break;
    case DimOp::Max:
      *result = a > b ? a : b;
      break;
    default:
      if (a != b && a != 1 && b != 1) return SizeFault::Mismatch;
      *result = a == 1 ? b : a;
      break;
  }
  return overflow ? SizeFault::Overflow : SizeFault::None;
}

}  // namespace pto
