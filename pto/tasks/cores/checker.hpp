// SPDX-License-Identifier: Apache-2.0
// Checker: runs an orchestration's tasks one after another and finds mistakes that another order
// would show: races, edges that nothing needs, and undeclared writes.
//
//     CheckReport report = check_orchestration(program, tensors, scalars);
//     report.races[0].from;             // task 1 writes what task 2 reads, and no path orders them
//
// If arguments opt out of inference (no_dep, manual submissions), the remaining edges must imply
// those that inference would add. After each task the checker compares all memory of the run with
// its earlier contents.
// Invariant: a reported race is one, if the accesses are as declared. Not seen: a write that leaves
// the old value, and an undeclared read.
// Thread safety: as run_orchestration(); one run at a time on the same memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pto/tasks/cores/orchestrate.hpp"

namespace pto {

struct CheckedTask {
  TaskId id = 0;  // 0: the orchestration itself
  std::string kernel, site;
};

// Bytes of an argument ("argument 2") or of memory that the orchestration allocated ("tensor 1").
struct CheckedBytes {
  std::string memory;
  int64_t begin = 0, end = 0, count = 0;  // first byte, one past the last, bytes concerned
};

struct Race {
  CheckedTask from, to;
  Access from_access, to_access;
  CheckedBytes bytes;
};

struct SurplusEdge {
  CheckedTask from, to;
  bool is_implied;  // other edges order the two; else no common memory needs it
};

struct UndeclaredWrite {
  enum Kind { IntoInput, BesideItsBox, IntoOthers, OutOfBounds };
  CheckedTask task;
  Kind kind;
  CheckedBytes bytes;
};

struct CheckReport {
  int64_t tasks = 0, edges = 0;
  std::vector<Race> races;
  std::vector<SurplusEdge> surplus;
  std::vector<UndeclaredWrite> writes;
  int64_t unexamined = 0;  // explicit edges that would have taken too long to check
};

// Throws Error as run_orchestration() does, and for a program of more than TaskOrder::kMost tasks.
CheckReport check_orchestration(const OrchestrationProgram& program,
                                std::span<const pto_tensor> tensors, const Numbers& scalars);

}  // namespace pto
