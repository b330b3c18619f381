// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/trace_replay.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace pto {

ReplayTrace::ReplayTrace(RunTrace& into, std::span<const GraphTask> tasks, int workers)
    : trace_(into), tasks_(tasks) {
  ns_of_a_tick();  // measured before the run
  RunTrace fresh;
  fresh.level = into.level;
  fresh.capacity = std::bit_ceil(std::max<size_t>(into.capacity, 2));
  fresh.record_ns = fresh.level >= kRecords ? record_cost_ns() : 0;
  fresh.workers = workers;
  fresh.is_replay = true;
  fresh.kernels.push_back("(none)");
  fresh.sites.push_back("");
  std::map<const TaskKernel*, uint16_t> kernels{{nullptr, uint16_t(0)}};
  std::map<std::pair<const char*, int32_t>, uint32_t> sites;
  for (const GraphTask& task : tasks) {
    const auto [kernel, is_new] = kernels.try_emplace(task.kernel, uint16_t(fresh.kernels.size()));
    if (is_new) fresh.kernels.push_back(task.kernel->name);
    Name name{kernel->second, 0};
    if (task.file[0] != 0) {
      const auto [site, is_first] =
          sites.try_emplace({task.file, task.line}, uint32_t(fresh.sites.size()));
      if (is_first) fresh.sites.push_back(task.file + (":" + std::to_string(task.line)));
      name.site = site->second;
    }
    names_.push_back(name);
  }
  trace_ = std::move(fresh);
  for (int w = 0; w < workers; ++w) rings_.emplace_back().begin(trace_);
  start_ = trace_ticks();
  ready_ticks_.assign(trace_.level >= kRecords ? tasks.size() : 0, start_);
}

void ReplayTrace::add(int64_t task, int32_t worker, uint64_t start) {
  const Name name = names_[size_t(task)];
  TraceRing& ring = rings_[size_t(worker)];
  ring.count(name.kernel);
  if (trace_.level == kCounters) return;
  const double ns = ns_of_a_tick();
  const uint64_t ready = ready_ticks_[size_t(task)], end = trace_ticks();
  const auto since = [&](uint64_t from, uint64_t to) {
    return to > from ? double(to - from) * ns : 0.0;
  };
  const auto narrow = [](double value) { return uint32_t(std::min(value, 4294967295.0)); };
  ring.add({uint64_t(task) + 1, uint64_t(since(start_, start)), narrow(since(start, end)),
            narrow(since(ready, start)), name.kernel, uint16_t(worker), name.site});
}

void ReplayTrace::end(std::span<const int32_t> successors, std::span<const EdgeCause> causes) {
  trace_.duration_ns = uint64_t(double(trace_ticks() - start_) * ns_of_a_tick());
  for (TraceRing& ring : rings_) ring.end(trace_);
  if (trace_.level >= kEdges)
    for (size_t i = 0; i < tasks_.size(); ++i)
      for (int32_t k = 0; k < tasks_[i].n_successors; ++k) {
        const auto at = size_t(tasks_[i].first_successor + k);
        trace_.edges.push_back({TaskId(i) + 1, TaskId(successors[at]) + 1, causes[at]});
      }
  sort_trace(trace_);
}

}  // namespace pto
