// SPDX-License-Identifier: Apache-2.0
// Scalars of tasks that are computed of the run's scalars (pto/runtime_symbol.h).
//
//     check_steps(steps, scalars.size());
//     uint64_t bits = evaluate(steps, scalars);
//
// Invariant: a run and a replay compute them by this one function.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "pto/runtime_api.h"

namespace pto {

// Throws Error for steps that are no expression over so many scalars, or too large a one.
void check_steps(std::span<const pto_step> steps, size_t n_scalars);

// The value as it travels: an int64, or the bits of a double. Of checked steps; throws Error where
// integers are divided by zero.
uint64_t evaluate(std::span<const pto_step> steps, std::span<const uint64_t> scalars);

}  // namespace pto
