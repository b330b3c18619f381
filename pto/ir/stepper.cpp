// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/stepper.hpp"

namespace pto {

Stepper::Stepper(const GraphBuilder& builder, const std::vector<Array>& inputs,
                 const InterpretLimits& limits)
    : budget_(limits),
      evaluation_(builder.graph(), bind_symbols(builder.graph(), inputs), false, budget_) {
  Shared shared;
  for (const Array& array : inputs) {
    budget_.hold(static_cast<int64_t>(array.size()));
    shared.push_back(std::make_shared<const Bounded>(Bounded{array, {}}));
  }
  evaluation_.begin(shared);
}

const Array& Stepper::value(Value v) {
  evaluation_.advance();
  return evaluation_.result(v, 0).array;
}

int64_t Stepper::size(const Dim& dim) {
  evaluation_.advance();
  return evaluation_.sizes({dim})[0];
}

}  // namespace pto
