// SPDX-License-Identifier: Apache-2.0
// SizeGuard: two sizes that must be equal at a call.
//
//     guards.push_back({rows, columns, "matmul"});
//     guards.push_back(SizeGuard::nonempty(size, "amax"));
//
// Thread safety: plain values.
#pragma once

#include <string>

#include "pto/abi/operator.h"
#include "pto/base/dims.hpp"

namespace pto {

// Says what it means that the two sizes of a guard differ.
enum class GuardKind : int32_t {
  Equal = PTO_GUARD_EQUAL,
  Nonempty = PTO_GUARD_NONEMPTY,  // a is min(size, 1) and b is 1: an axis to be reduced is empty
  Holds = PTO_GUARD_HOLDS  // a counts the elements of which `because` is not true, and b is 0
};

struct SizeGuard {
  Dim a, b;
  std::string because;  // the operation that needs it, "add"; or what has to be true
  GuardKind kind = GuardKind::Equal;

  static SizeGuard nonempty(const Dim& size, std::string because) {
    return {min(size, 1), 1, std::move(because), GuardKind::Nonempty};
  }
  static SizeGuard holds(const Dim& count, std::string because) {
    return {count, 0, std::move(because), GuardKind::Holds};
  }
  friend bool operator==(const SizeGuard& x, const SizeGuard& y) {
    return x.a == y.a && x.b == y.b && x.because == y.because && x.kind == y.kind;
  }
};

}  // namespace pto
