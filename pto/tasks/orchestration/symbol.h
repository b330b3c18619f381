// SPDX-License-Identifier: Apache-2.0
// Symbol: a scalar of the run, or an expression over scalars that the runtime evaluates later.
//
//     auto n = o.symbol(0);                                   // an int64
//     auto scale = o.symbol<double>(1) / (n + 1);
//     o.submit("scale", {o.inout(x), o.scalar(min(n * 2, 64)), o.scalar(scale)});
//
// A captured graph evaluates it again from the scalars of each replay; o.integer(0) would tie the
// graph to one number. The orchestration cannot branch on a Symbol: it has no value there. int64
// wraps; / and % round towards zero and fail on division by zero. double works as in C, % as fmod;
// min and max give NaN if either operand is NaN.
// Invariant: the steps are a valid expression in postfix order.
// Thread safety: values.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "pto/abi/runtime_api.h"

namespace pto {

template <class T = int64_t>
class Symbol {
  static_assert(std::is_same<T, int64_t>::value || std::is_same<T, double>::value,
                "Symbol: T must be int64_t or double, the types of a run's scalars");
  static constexpr int32_t kIsReal = std::is_same<T, double>::value;

 public:
  // Makes a constant; takes floating values only if T is double.
  template <class U,
            class = typename std::enable_if<std::is_integral<U>::value ||
                                            (kIsReal && std::is_arithmetic<U>::value)>::type>
  Symbol(U value) {
    const T wide = T(value);
    pto_step step{PTO_STEP_CONSTANT, kIsReal, 0};
    std::memcpy(&step.value, &wide, sizeof wide);
    steps_.push_back(step);
  }
  // Converts an int64 to a double.
  template <class U,
            class = typename std::enable_if<kIsReal && std::is_same<U, int64_t>::value>::type>
  Symbol(const Symbol<U>& integer) : steps_(integer.steps()) {
    steps_.push_back({PTO_STEP_TO_REAL, kIsReal, 0});
  }
  static Symbol of_scalar(int32_t index) {
    Symbol symbol;
    symbol.steps_.push_back({PTO_STEP_SCALAR, kIsReal, uint64_t(index)});
    return symbol;
  }

  friend Symbol operator+(const Symbol& a, const Symbol& b) { return of(PTO_STEP_ADD, a, b); }
  friend Symbol operator-(const Symbol& a, const Symbol& b) { return of(PTO_STEP_SUBTRACT, a, b); }
  friend Symbol operator*(const Symbol& a, const Symbol& b) { return of(PTO_STEP_MULTIPLY, a, b); }
  friend Symbol operator/(const Symbol& a, const Symbol& b) { return of(PTO_STEP_DIVIDE, a, b); }
  friend Symbol operator%(const Symbol& a, const Symbol& b) { return of(PTO_STEP_REMAINDER, a, b); }
  friend Symbol min(const Symbol& a, const Symbol& b) { return of(PTO_STEP_MIN, a, b); }
  friend Symbol max(const Symbol& a, const Symbol& b) { return of(PTO_STEP_MAX, a, b); }

  // Returns the expression as the runtime takes it: operands before operations.
  const std::vector<pto_step>& steps() const { return steps_; }

 private:
  Symbol() = default;
  static Symbol of(int32_t operation, const Symbol& a, const Symbol& b) {
    Symbol result;
    result.steps_.reserve(a.steps_.size() + b.steps_.size() + 1);
    result.steps_ = a.steps_;
    result.steps_.insert(result.steps_.end(), b.steps_.begin(), b.steps_.end());
    result.steps_.push_back({operation, kIsReal, 0});
    return result;
  }
  std::vector<pto_step> steps_;
};

}  // namespace pto
