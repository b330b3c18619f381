// SPDX-License-Identifier: Apache-2.0
// The engine's part of a trace: kernels, sites, submissions, waits, memory; each worker adds its
// records.
#include <algorithm>

#include "pto/tasks/cores/run_state.hpp"

namespace pto {

void Engine::begin_trace() {
  pto::begin_trace(*trace_, int(workers_.size()), true);
  for (const auto& worker : workers_) worker->trace.begin(*trace_);
  trace_start_ = ticks();
}

// Looks names up only if they differ from the last task's; most tasks repeat its kernel and line.
void Engine::name_for_trace(Task& task, const TaskSpec& spec) {
  if (task.kernel != nullptr && task.kernel != named_kernel_) {
    named_kernel_number_ = uint16_t(
        traced_kernels_.number(task.kernel, trace_->kernels, [&] { return task.kernel->name; }));
    named_kernel_ = task.kernel;
  }
  task.kernel_number = task.kernel == nullptr ? 0 : named_kernel_number_;
  if (task.file[0] != 0 && std::pair(task.file, task.line) != named_line_) {
    named_line_ = {task.file, task.line};
    named_site_ = uint32_t(traced_sites_.number(named_line_, trace_->sites,
                                                [&] { return site_of(task.file, task.line); }));
  }
  task.site = task.file[0] == 0 ? 0 : named_site_;
  if (!traces(kSubmissions)) return;
  submission_.task = task.id;
  submission_.kernel = task.kernel_number;
  submission_.site = task.site;
  submission_.blocks = uint16_t(std::min<int32_t>(spec.start_together ? 1 : spec.blocks, 65535));
}

void Engine::note_allocation(Allocation& made) {
  const auto start_ns = uint64_t(double(ticks() - trace_start_) * tick_ns());
  made.record = {++allocated_, start_ns, MemoryRecord::kHeld, made.bytes, 0, 0};
}

// No worker frees this memory meanwhile: the orchestration holds it.
void Engine::note_first_task(const Task& task, const TaskSpec& spec) {
  for (const TaskTensor& tensor : spec.tensors)
    if (MemoryRecord& record = tensor.allocation->record; record.task == 0) {
      record.task = task.id;
      record.site = task.site;
    }
}

void Engine::note_free(TaskWorker& self, Allocation& allocation) {
  if (allocation.record.number == 0) return;  // the caller's memory
  allocation.record.end_ns = uint64_t(double(ticks() - trace_start_) * tick_ns());
  self.trace.add(allocation.record);
}

void Engine::note_submission(uint64_t start, uint64_t claimed) {
  const double ns = tick_ns();
  submission_.start_ns = uint64_t(double(start - trace_start_) * ns);
  submission_.waited_ns += uint64_t(double(claimed - start) * ns);
  const double rest = double(ticks() - start) * ns - double(submission_.waited_ns);
  submission_.cost_ns = uint32_t(std::clamp(rest, 0.0, 4294967295.0));
  trace_->submissions.push_back(std::exchange(submission_, {}));
}

// Counts a task that the submitting thread ran itself as waiting, not as cost of submission.
void Engine::note_run(uint64_t start) {
  submission_.waited_ns += uint64_t(double(ticks() - start) * tick_ns());
}

void Engine::note_wait(const std::vector<TaskId>& writers, uint64_t start) {
  submission_.awaited.insert(submission_.awaited.end(), writers.begin(), writers.end());
  submission_.awaited_ns += uint64_t(double(ticks() - start) * tick_ns());
}

void Engine::end_trace() {
  trace_->duration_ns = uint64_t(double(ticks() - trace_start_) * tick_ns());
  for (const auto& worker : workers_) worker->trace.end(*trace_);
  for (const auto& one : allocations_)
    if (one->record.end_ns == MemoryRecord::kHeld) trace_->memory.push_back(one->record);
  trace_->failures = failures_.all();
  sort_trace(*trace_);
}

}  // namespace pto
