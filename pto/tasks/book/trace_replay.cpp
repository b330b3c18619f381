// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/trace_replay.hpp"

#include <utility>

#include "pto/tasks/book/failures.hpp"

namespace pto {

ReplayTrace::ReplayTrace(RunTrace& into, std::span<const GraphTask> tasks, int workers)
    : trace_(into), tasks_(tasks) {
  begin_trace(trace_, workers, true);
  trace_.is_replay = true;
  TraceNames<const TaskKernel*> kernels;
  TraceNames<std::pair<const char*, int32_t>> sites;
  for (const GraphTask& task : tasks) {
    Name& name = names_.emplace_back();
    if (task.kernel != nullptr)
      name.kernel =
          uint16_t(kernels.number(task.kernel, trace_.kernels, [&] { return task.kernel->name; }));
    if (task.file[0] != 0)
      name.site = uint32_t(sites.number({task.file, task.line}, trace_.sites,
                                        [&] { return site_of(task.file, task.line); }));
  }
  for (int w = 0; w < workers; ++w) rings_.emplace_back().begin(trace_);
  start_ = read_ticks();
  ready_ticks_.assign(trace_.level >= kRecords ? tasks.size() : 0, start_);
}

void ReplayTrace::add(int64_t task, int32_t worker, uint64_t start) {
  const Name name = names_[size_t(task)];
  TraceRing& ring = rings_[size_t(worker)];
  ring.count(name.kernel);
  if (trace_.level == kCounters) return;
  ring.add(record_of(TaskId(task) + 1,
                     {start_, ready_ticks_[size_t(task)], start, read_ticks(), ns_of_a_tick()},
                     name.kernel, worker, name.site));
}

void ReplayTrace::end(std::span<const int32_t> successors, std::span<const EdgeCause> causes,
                      std::span<const MemoryRecord> memory) {
  trace_.duration_ns = uint64_t(double(read_ticks() - start_) * ns_of_a_tick());
  for (TraceRing& ring : rings_) ring.end(trace_);
  if (trace_.level >= kRecords) trace_.memory.assign(memory.begin(), memory.end());
  for (MemoryRecord& one : trace_.memory)
    if (one.task > 0) one.site = names_[one.task - 1].site;
  if (trace_.level >= kEdges)
    for (size_t i = 0; i < tasks_.size(); ++i)
      for (int32_t k = 0; k < tasks_[i].n_successors; ++k) {
        const auto at = size_t(tasks_[i].first_successor + k);
        trace_.edges.push_back({TaskId(i) + 1, TaskId(successors[at]) + 1, causes[at]});
      }
  sort_trace(trace_);
}

}  // namespace pto
