// SPDX-License-Identifier: Apache-2.0
// The chip engine: one run of an orchestration, whose tasks follow each other where they touch the
// same bytes and run side by side elsewhere, on the threads of the pool.
//
//     RunOptions options;
//     RunReport report = run_tasks(options, [&](TaskRun& run) {
//       Allocation* x = run.adopt({{x_data, bytes}})[0];
//       Allocation& y = run.allocate(bytes);
//       run.submit({.kernel = &twice, .tensors = ...});   // reads x, writes y
//     });
//
// The thread that orchestrates works too: where the window of tasks in flight is full, when it has
// run far ahead, and at the end. A task that fails poisons those that follow it; all others finish.
// Then run_tasks throws an Error that names the first cause.
// Invariants: what a run computes is what its tasks compute one after another in the order of
// submission (Reduce aside). One worker is enough for every run.
// Thread safety: run_tasks may be called from any thread; a TaskRun belongs to the one that
// orchestrates.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pto/tasks/cores/expression.hpp"
#include "pto/tasks/cores/task.hpp"

namespace pto {

// Memory of the run, or of the caller; tensors of tasks lie in one.
struct Allocation;

struct TaskTensor {
  Allocation* allocation;
  Access access;
  pto_tensor view;         // data inside the allocation
  bool is_tracked = true;  // false: only kept alive, nobody waits for it
};

// Scalar `place` of a task is computed of the run's scalars; its value, of this kind, stands among
// the others as the kernel takes it.
struct DerivedScalar {
  int32_t place;
  uint8_t kind;
  std::span<const pto_step> steps;
};

struct TaskSpec {
  const TaskKernel* kernel;  // null: nothing runs, for its edges alone
  std::span<const TaskTensor> tensors;
  std::span<const uint64_t> scalars;
  std::span<const TaskId> after;
  int32_t blocks = 1;
  bool start_together = false;
  const Predicate* predicate = nullptr;
  const TaskTensor* predicate_tensor = nullptr;  // that it looks at; a tracked Read
  const char* file = "";                         // kept as a pointer
  int32_t line = 0;
  std::span<const DerivedScalar> derived = {};
};

struct RunTrace;
class RunWatch;
class Steps;

struct RunOptions {
  int workers = 0;            // 0: as many as a launch may use
  int64_t window = 4096;      // tasks in flight: a power of two
  double deadline_s = 0;      // 0: none. Tasks that begin later fail
  RunTrace* trace = nullptr;  // filled where it is given (trace.hpp)
  Steps* steps = nullptr;     // simulates the run where it is given (steps.hpp)
  RunWatch* watch = nullptr;  // of a run with a deadline, told what runs (abandon.hpp)
};

struct RunReport {
  int64_t tasks = 0, edges = 0, skipped = 0;
  int64_t unknown_overlaps = 0;  // pairs of boxes taken as overlapping unproven
};

struct TaskFailure {
  TaskId task;
  std::string kernel, site, text;  // site: "file:line" of the submission
  int worker;
};

struct MemoryPiece {
  void* data;
  int64_t bytes;
};

class TaskRun {
 public:
  virtual ~TaskRun() = default;

  // Memory of the caller's, which outlives the run: an allocation for each piece, one for pieces
  // that overlap. Throws Error where a piece overlaps what an earlier call adopted.
  virtual std::vector<Allocation*> adopt(std::span<const MemoryPiece> pieces) = 0;

  // New memory, freed when the caller has let go of it and its tasks are done. Throws Error where
  // memory is exhausted.
  virtual Allocation& allocate(int64_t bytes) = 0;
  virtual void let_go(Allocation& allocation) = 0;
  static char* data_of(const Allocation& allocation);
  static int64_t bytes_of(const Allocation& allocation);

  // Throws Error for a specification that cannot run.
  virtual TaskId submit(const TaskSpec& spec) = 0;

  // Runs tasks until the writers of the tensor's bytes are done. False where one has failed.
  virtual bool wait_for(const TaskTensor& tensor) = 0;

  // From now on nothing new starts; what runs ends. The run fails with this text.
  virtual void stop(const std::string& text) = 0;
  virtual bool has_failed() const = 0;
};

// Runs it all. Throws what `orchestrate` throws, after the tasks in flight have ended; else Error
// with the first failed task: kernel, task, where it was submitted, and its text.
RunReport run_tasks(const RunOptions& options, const std::function<void(TaskRun&)>& orchestrate);

}  // namespace pto
