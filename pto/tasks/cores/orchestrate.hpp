// SPDX-License-Identifier: Apache-2.0
// Runs an orchestration (pto/runtime.h) on the chip engine.
//
//     OrchestrationProgram program{orchestrate, {{"add", {add, "add"}}}};
//     RunReport report = run_orchestration(program, tensors, scalars, {});
//
// Invariant: the engine keeps file names of submissions as pointers, so the program's code stays
// loaded until the run has ended and its error was read.
// Thread safety: any thread; a program may run several times at once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pto/runtime.h"
#include "pto/tasks/cores/engine.hpp"

namespace pto {

// The kernels of mixed tasks, one for each combination. They live as long as the table.
// Thread safety: any thread.
class MixedKernels {
 public:
  // At least one kernel is not null.
  const TaskKernel& of(const TaskKernel* cube, const TaskKernel* vector0,
                       const TaskKernel* vector1);

 private:
  std::mutex mutex_;
  std::deque<TaskKernel> kernels_;
};

struct OrchestrationProgram {
  int32_t (*orchestrate)(const pto_runtime_api*, const pto_args*);
  std::map<std::string, TaskKernel, std::less<>> kernels;  // by the names that submit() uses
  std::shared_ptr<MixedKernels> mixed = std::make_shared<MixedKernels>();
};

// Runs on tensors with extents (extent_bytes >= 0, from the lowest element on);
// PTO_TENSOR_READ_ONLY marks those that the orchestration must not write. Throws what run_tasks()
// throws, and Error if the orchestration returns non-zero or lets an exception escape.
RunReport run_orchestration(const OrchestrationProgram& program,
                            std::span<const pto_tensor> tensors, const Numbers& scalars,
                            const RunOptions& options);

// Does the same into a run of any kind, which must go on until this returns. Returns which of the
// scalars were read as numbers.
std::vector<bool> orchestrate_into(TaskRun& run, const OrchestrationProgram& program,
                                   std::span<const pto_tensor> tensors, const Numbers& scalars);

// Returns the bytes of a tensor, from its lowest element to past its highest.
MemoryPiece piece_of(const pto_tensor& tensor);

}  // namespace pto
