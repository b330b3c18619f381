// SPDX-License-Identifier: Apache-2.0
// Advice: ranks changes that would make a recorded run shorter by simulating the run with each.
//
//     Advice advice = advise(recorded);
//     advice.changes[0].what;              // "kernel softmax at twice its speed"
//     advice.changes[0].duration_ns;       // with it; advice.duration_ns without
//
// Invariant: changes are sorted by gain, the greatest first; a change that gains nothing is left
// out.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pto/tasks/simulate/simulate.hpp"

namespace pto {

enum class ChangeKind { Workers, Kernel, Split, Buffer, Window, LargerTasks };
const char* name(ChangeKind kind);

struct Change {
  ChangeKind kind;
  std::string what;
  uint64_t duration_ns;  // of the run with it
};
struct Advice {
  uint64_t duration_ns;  // of the run as it is, simulated
  std::vector<Change> changes;
};
Advice advise(const RecordedRun& run, const SchedulingCosts* costs = nullptr);

}  // namespace pto
