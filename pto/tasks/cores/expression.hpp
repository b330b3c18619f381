// SPDX-License-Identifier: Apache-2.0
// Scalars of tasks that are computed of the run's scalars (pto/tasks/orchestration/symbol.h).
//
//     check_steps(steps, scalars);
//     uint64_t bits = evaluate(steps, scalars);
//
// Invariant: a run and a replay compute them by this one function.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "pto/abi/runtime_api.h"
#include "pto/launch/number.hpp"

namespace pto {

// What the value is: an int64 or a double. Throws Error for steps that are no expression over these
// scalars, as an int64 of a double is none, or too large a one.
uint8_t check_steps(std::span<const pto_step> steps, const Numbers& scalars);

// The value as it travels: an int64, or the bits of a double. Of checked steps; throws Error where
// integers are divided by zero, and where a double does not hold an integer.
uint64_t evaluate(std::span<const pto_step> steps, const Numbers& scalars);

}  // namespace pto
