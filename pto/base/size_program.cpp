// SPDX-License-Identifier: Apache-2.0
#include "pto/base/size_program.hpp"

namespace pto {

static_assert(static_cast<int>(DimOp::Broadcast) == PTO_DIM_BROADCAST);

int32_t SizeSteps::add(const Dim& dim) {
  pto_dim step{static_cast<int32_t>(dim.op()), 0, 0, dim.value()};
  if (!dim.is_constant() && !dim.is_symbol()) {
    step.left = add(dim.left());
    step.right = add(dim.right());
  }
  const std::array<int64_t, 4> key{step.op, step.left, step.right, step.value};
  const auto [known, is_new] = places_.emplace(key, static_cast<int32_t>(steps.size()));
  if (is_new) steps.push_back(step);
  return known->second;
}

SizeProgram::SizeProgram(const Dim& dim) : dim_(dim) {
  if (dim.is_constant()) {
    value_ = dim.value();
  } else if (dim.is_symbol()) {
    symbol_ = static_cast<int>(dim.value());
  } else {
    SizeSteps all;
    all.add(dim);
    steps_ = std::move(all.steps);
  }
}

int64_t SizeProgram::evaluate_all(const int64_t* symbols) const {
  int64_t sizes[2 * Dim::kMaxParts];  // an operation joins two parts, so there are fewer of them
  KnownSizes rules(steps_.data());
  try {
    evaluate_steps(
        steps_.data(), static_cast<int32_t>(steps_.size()),
        [symbols](int64_t index) { return symbols[index]; }, rules, sizes);
  } catch (const SizeRefusal& refusal) {
    fail(refusal);
  }
  return sizes[steps_.size() - 1];
}

}  // namespace pto
