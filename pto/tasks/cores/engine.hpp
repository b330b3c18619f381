// SPDX-License-Identifier: Apache-2.0
// The chip engine: runs one orchestration on the pool's threads. Tasks that touch the same bytes
// run one after another, all others side by side.
//
//     RunOptions options;
//     RunReport report = run_tasks(options, [&](TaskRun& run) {
//       const MemoryPiece piece{x_data, bytes};
//       Allocation &x = *run.adopt({&piece, 1})[0], &y = run.allocate(bytes);
//       const TaskTensor tensors[] = {{&x, Access::Read, x_view}, {&y, Access::Write, y_view}};
//       run.submit({.kernel = &twice, .tensors = tensors});
//     });
//
// The orchestrating thread runs tasks too: when the window of tasks in flight is full, when it has
// submitted far ahead, and at the end. A failed task poisons its successors; all other tasks
// finish. Then run_tasks() throws an Error that names the first cause.
// Invariant: a run computes what its tasks compute one after another in the order of submission
// (Reduce may reorder). Every run finishes with one worker.
// Thread safety: any thread may call run_tasks(); only the orchestrating thread uses a TaskRun.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pto/tasks/cores/expression.hpp"
#include "pto/tasks/cores/task.hpp"

namespace pto {

// Memory of the run or of its caller; each tensor of a task lies in one allocation.
struct Allocation;

struct TaskTensor {
  Allocation* allocation;
  Access access;
  pto_tensor view;
  bool is_tracked = true;  // false: kept alive only, without edges
};

// Computes scalar `place` of a task from the run's scalars; its current value, of this kind, stands
// in TaskSpec::scalars in the form that the kernel takes.
struct DerivedScalar {
  int32_t place;
  uint8_t kind;
  std::span<const pto_step> steps;
};

struct TaskSpec {
  const TaskKernel* kernel;  // null: nothing runs; the task only has edges
  std::span<const TaskTensor> tensors;
  std::span<const uint64_t> scalars;
  std::span<const TaskId> after;
  int32_t blocks = 1;
  bool start_together = false;
  const Predicate* predicate = nullptr;
  const TaskTensor* predicate_tensor = nullptr;  // the tensor it reads; a tracked Read
  const char* file = "";                         // the pointer is kept
  int32_t line = 0;
  std::span<const DerivedScalar> derived = {};
};

struct RunTrace;
class RunWatch;
class Steps;

struct RunOptions {
  int workers = 0;            // 0: as many as the pool has threads
  int64_t window = 4096;      // tasks in flight: a power of two
  double deadline_s = 0;      // 0: none; a task that begins later fails
  RunTrace* trace = nullptr;  // if given, the run fills it (trace.hpp)
  Steps* steps = nullptr;     // if given, it simulates the run (steps.hpp)
  RunWatch* watch = nullptr;  // if given, it is told what runs (abandon.hpp)
};

struct RunReport {
  int64_t tasks = 0, edges = 0, skipped = 0;
  int64_t unknown_overlaps = 0;  // pairs of boxes that count as overlapping, unproven
};

struct MemoryPiece {
  void* data;
  int64_t bytes;
};

class TaskRun {
 public:
  virtual ~TaskRun() = default;

  // Adopts the caller's memory, which outlives the run: one allocation for each piece, shared by
  // pieces that overlap. Throws Error if a piece overlaps what an earlier call adopted.
  virtual std::vector<Allocation*> adopt(std::span<const MemoryPiece> pieces) = 0;

  // Allocates memory, which is freed once the caller has let go of it and its tasks are done.
  // Throws Error if memory is exhausted.
  virtual Allocation& allocate(int64_t bytes) = 0;
  virtual void let_go(Allocation& allocation) = 0;
  static char* data_of(const Allocation& allocation);
  static int64_t bytes_of(const Allocation& allocation);

  // Throws Error for a specification that cannot run.
  virtual TaskId submit(const TaskSpec& spec) = 0;

  // Runs tasks until the writers of the tensor's bytes are done. Returns false if one has failed.
  virtual bool wait_for(const TaskTensor& tensor) = 0;

  // Starts nothing new from now on; running tasks end. The run fails with this text.
  virtual void stop(const std::string& text) = 0;
  virtual bool has_failed() const = 0;
};

// Runs the orchestration and all its tasks. Throws what `orchestrate` throws, once the tasks in
// flight have ended; else Error with the first failed task: kernel, task, site of submission, text.
RunReport run_tasks(const RunOptions& options, const std::function<void(TaskRun&)>& orchestrate);

}  // namespace pto
