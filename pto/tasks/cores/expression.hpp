// SPDX-License-Identifier: Apache-2.0
// Derived scalars: evaluates task scalars that are expressions of the run's scalars
// (pto/tasks/orchestration/symbol.h).
//
//     check_steps(steps, scalars);
//     uint64_t bits = evaluate(steps, scalars);
//
// Invariant: a run and a replay evaluate them by this one function.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "pto/abi/runtime_api.h"
#include "pto/launch/number.hpp"

namespace pto {

// Returns the kind of the value: an int64 or a double. Throws Error if the steps are no expression
// over these scalars (an int64 read as a double, say), or too long a one.
uint8_t check_steps(std::span<const pto_step> steps, const Numbers& scalars);

// Returns the value of checked steps: an int64, or the bits of a double. Throws Error for an
// integer division by zero, and for an integer scalar that is read as a double and rounds.
uint64_t evaluate(std::span<const pto_step> steps, const Numbers& scalars);

}  // namespace pto
