// SPDX-License-Identifier: Apache-2.0
// Nonempty: the guard that a size is not 0, written as an equality of sizes, and its error.
//
//     guards.push_back({one_unless_empty(size), 1, "amax"});   // min(size, 1) == 1
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/base/dims.hpp"
#include "pto/base/error.hpp"

namespace pto {

inline Dim one_unless_empty(const Dim& size) { return min(size, 1); }

// True where the guard a == b has that form.
inline bool asks_nonempty(const Dim& a, const Dim& b) {
  return a.op() == DimOp::Min && a.right() == Dim(1) && b == Dim(1);
}

// `operation` names the reduction; `origin` explains the size, such as "s0 = 0 is axis 0 of x".
inline ErrorText empty_reduction(const std::string& operation, const std::string& origin) {
  return {operation + " over an axis of size 0" + (origin.empty() ? "" : ": " + origin),
          "there is no largest or smallest of no elements, and PyTorch refuses it too",
          "pass a tensor that has elements along the reduced axes, or skip an empty one"};
}

}  // namespace pto
