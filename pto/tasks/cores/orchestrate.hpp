// SPDX-License-Identifier: Apache-2.0
// An orchestration (pto/runtime.h) as a run of the engine.
//
//     OrchestrationProgram program{orchestrate, {{"add", {add, "add"}}}};
//     RunReport report = run_orchestration(program, tensors, scalars, {});
//
// Invariant: file names of submissions are kept as pointers, so the program's code stays loaded
// until the run has ended and its error was read.
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

// The kernels of mixed tasks, each combination once. They live as long as the table.
// Thread safety: any thread.
class MixedKernels {
 public:
  // Of at least one kernel.
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

// Tensors with their extents (extent_bytes >= 0, from the lowest element on); those that the
// orchestration must not write are PTO_TENSOR_READ_ONLY. Throws Error: what run_tasks throws, an
// orchestration that returns non-zero, and what escapes from it.
RunReport run_orchestration(const OrchestrationProgram& program,
                            std::span<const pto_tensor> tensors, const Numbers& scalars,
                            const RunOptions& options);

// The same into a run of any kind, which must go on until this returns. Which of the scalars were
// read as numbers.
std::vector<bool> orchestrate_into(TaskRun& run, const OrchestrationProgram& program,
                                   std::span<const pto_tensor> tensors, const Numbers& scalars);

// The bytes of a tensor, from its lowest to behind its highest element.
MemoryPiece piece_of(const pto_tensor& tensor);

}  // namespace pto
