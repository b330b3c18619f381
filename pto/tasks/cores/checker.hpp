// SPDX-License-Identifier: Apache-2.0
// Checker: runs an orchestration's tasks one after another and looks for mistakes that another
// order would show: races, edges that nothing needs, and writes that were not declared.
//
//     CheckReport report = check_orchestration(program, tensors, scalars);
//     report.races[0].from;             // task 1 writes what task 2 reads, and no path orders them
//
// Where arguments opt out of inference (no_dep, manual submissions) the edges that inference would
// give must follow from those that are there. After each task all memory of the run is compared
// with what it was.
// Invariants: a race that is reported is one, if accesses are as declared. A write that leaves the
// old value, and a read that was not declared, are not seen.
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

// Bytes of an argument, "argument 2", or of memory that the orchestration asked for, "tensor 1".
struct CheckedBytes {
  std::string memory;
  int64_t begin = 0, end = 0, count = 0;  // the first, behind the last, how many of those between
};

struct Race {
  CheckedTask from, to;
  Access from_access, to_access;
  CheckedBytes bytes;
};

struct SurplusEdge {
  CheckedTask from, to;
  bool is_implied;  // other edges order the two; else nothing that tasks touch needs it
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
  int64_t unexamined = 0;  // explicit edges that it would have taken too long to look at
};

// Throws Error as run_orchestration() does, and for programs of more tasks than it can order.
CheckReport check_orchestration(const OrchestrationProgram& program,
                                std::span<const pto_tensor> tensors, const Numbers& scalars);

}  // namespace pto
