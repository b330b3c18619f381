// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/trace.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <tuple>
#include <unordered_map>

#include "pto/base/ticks.hpp"
#include "pto/tasks/book/trace_file.hpp"

namespace pto {
namespace {

// When the last block of a task ended, and how long all of them took together.
struct TaskTimes {
  uint64_t start, end, busy;
};
std::unordered_map<TaskId, TaskTimes> times_of(const RunTrace& trace) {
  std::unordered_map<TaskId, TaskTimes> times;
  for (const TraceRecord& r : trace.records) {
    const uint64_t end = r.start_ns + r.duration_ns;
    auto [it, is_new] = times.try_emplace(r.task, TaskTimes{r.start_ns, end, 0});
    it->second.start = std::min(it->second.start, r.start_ns);
    it->second.end = std::max(it->second.end, end);
    it->second.busy += r.duration_ns;
  }
  return times;
}

void find_critical_path(const RunTrace& trace, TraceSummary& summary) {
  const auto times = times_of(trace);
  std::map<TaskId, std::pair<uint64_t, TaskId>> longest;  // ns to its end; its predecessor
  for (const auto& [task, t] : times) longest[task] = {t.end - t.start, 0};
  std::vector<TraceEdge> edges = trace.edges;
  std::sort(edges.begin(), edges.end(),
            [](const TraceEdge& a, const TraceEdge& b) { return a.to < b.to; });
  for (const auto& [from, to, cause] : edges) {  // sorted by the later task
    const auto a = longest.find(from), b = longest.find(to);
    if (a == longest.end() || b == longest.end()) continue;
    const auto& own = times.at(to);
    const uint64_t through = a->second.first + (own.end - own.start);
    if (through > b->second.first) b->second = {through, from};
  }
  TaskId last = 0;
  for (const auto& [task, found] : longest)
    if (last == 0 || found.first > longest[last].first) last = task;
  if (last == 0) return;
  summary.critical_ns = longest[last].first;
  for (TaskId task = last; task != 0; task = longest[task].second) summary.critical.push_back(task);
  std::reverse(summary.critical.begin(), summary.critical.end());
}

// Sums idle and waiting times over the steps at which tasks become ready, start or end.
void find_idle_times(const RunTrace& trace, TraceSummary& summary) {
  std::vector<std::pair<uint64_t, std::pair<int, int>>> steps;
  for (const TraceRecord& r : trace.records) {
    steps.push_back({r.start_ns - r.waited_ns, {1, 0}});
    steps.push_back({r.start_ns, {-1, 1}});
    steps.push_back({r.start_ns + r.duration_ns, {0, -1}});
  }
  steps.push_back({trace.duration_ns, {0, 0}});
  std::sort(steps.begin(), steps.end());
  uint64_t before = 0;
  int waiting = 0, running = 0;
  for (const auto& [at, change] : steps) {
    const int free = std::max(0, trace.workers - running), wanted = std::clamp(waiting, 0, free);
    summary.idle_while_ready_ns += (at - before) * uint64_t(wanted);
    summary.starved_ns += (at - before) * uint64_t(free - wanted);
    before = at;
    waiting += change.first;
    running += change.second;
  }
}

}  // namespace

void begin_trace(RunTrace& trace, int workers, bool has_rings) {
  RunTrace fresh;
  fresh.level = trace.level;
  fresh.capacity = std::bit_ceil(std::max<size_t>(trace.capacity, 2));
  fresh.workers = workers;
  fresh.sites.push_back("");
  fresh.kernels.push_back("(none)");
  if (has_rings) ns_of_a_tick();  // measured before the run
  if (has_rings && fresh.level >= kRecords) fresh.record_ns = record_cost_ns();
  trace = std::move(fresh);
}

void TraceRing::end(RunTrace& into) {
  into.dropped += records_.end(into.records);
  into.memory_dropped += memory_.end(into.memory);
  if (into.calls.size() < calls_.size()) into.calls.resize(calls_.size());
  for (size_t i = 0; i < calls_.size(); ++i) into.calls[i] += calls_[i];
}

// Measures one record with its two clock readings; the least of several rounds.
double record_cost_ns() {
  static const double ns = [] {
    constexpr int kRecordsARound = 512;
    RunTrace trace;
    trace.capacity = kRecordsARound;
    uint64_t least = ~uint64_t{0};
    for (int round = 0; round < 16; ++round) {
      TraceRing ring;
      ring.begin(trace);
      const uint64_t start = read_ticks();
      for (int i = 0; i < kRecordsARound; ++i) {
        const uint64_t from = read_ticks();
        ring.count(1);
        ring.add({uint64_t(i), from, uint32_t(read_ticks() - from), 0, 1, 0, 0});
      }
      if (round > 0) least = std::min(least, read_ticks() - start);  // round 0 faults pages
    }
    return double(least) * ns_of_a_tick() / kRecordsARound;
  }();
  return ns;
}

void sort_trace(RunTrace& trace) {
  std::sort(trace.records.begin(), trace.records.end(),
            [](const TraceRecord& a, const TraceRecord& b) { return a.start_ns < b.start_ns; });
  std::sort(trace.memory.begin(), trace.memory.end(),
            [](const MemoryRecord& a, const MemoryRecord& b) { return a.number < b.number; });
  auto& edges = trace.edges;
  std::sort(edges.begin(), edges.end(), [](const TraceEdge& a, const TraceEdge& b) {
    return std::tie(a.from, a.to, a.cause) < std::tie(b.from, b.to, b.cause);
  });
  const auto is_same = [](const TraceEdge& a, const TraceEdge& b) {
    return a.from == b.from && a.to == b.to;
  };
  edges.erase(std::unique(edges.begin(), edges.end(), is_same), edges.end());
  trace.calls.resize(trace.kernels.size());
}

TraceSummary summarize(const RunTrace& trace) {
  TraceSummary summary{};
  summary.duration_ns = trace.duration_ns;
  std::vector<KernelTotal> totals;
  for (size_t i = 0; i < trace.kernels.size(); ++i)
    totals.push_back({trace.kernels[i], trace.calls[i], 0, 0});
  for (const TraceRecord& r : trace.records) {
    summary.busy_ns += r.duration_ns;
    summary.waited_ns += r.waited_ns;
    KernelTotal& total = totals[r.kernel];
    total.busy_ns += r.duration_ns;
    total.longest_ns = std::max<uint64_t>(total.longest_ns, r.duration_ns);
  }
  std::sort(totals.begin(), totals.end(),
            [](const KernelTotal& a, const KernelTotal& b) { return a.busy_ns > b.busy_ns; });
  summary.kernels = std::move(totals);
  summary.tracing_ns =
      uint64_t(trace.record_ns * double(trace.records.size() + trace.memory.size()));
  if (trace.level >= kRecords) find_idle_times(trace, summary);
  find_critical_path(trace, summary);
  return summary;
}

void write_trace(const RunTrace& trace, const std::string& path) {
  TraceFile file(path, trace.is_bound ? "host" : "chip");
  const std::string lane = trace.is_bound ? "device " : "worker ";
  for (int w = 0; w < trace.workers; ++w) file.name_lane(w, lane + std::to_string(w));
  std::unordered_map<TaskId, const TraceRecord*> by_task;
  std::unordered_map<TaskId, const TaskFailure*> failed;
  for (const TaskFailure& one : trace.failures) failed.emplace(one.task, &one);
  for (const TraceRecord& r : trace.records) {
    by_task[r.task] = &r;
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "\"task\":%llu,\"waited_us\":%.3f,\"source\":",
                  static_cast<unsigned long long>(r.task), double(r.waited_ns) / 1e3);
    const auto failure = failed.find(r.task);
    const bool has_failed = failure != failed.end();
    file.slice(r.worker, r.start_ns, r.duration_ns, trace.kernels[r.kernel],
               numbers + quoted(trace.sites[r.site]) +
                   (has_failed ? ",\"failed\":" + quoted(failure->second->text) : ""),
               has_failed);
  }
  for (const auto& [from, to, cause] : trace.edges) {
    const auto a = by_task.find(from), b = by_task.find(to);
    if (a == by_task.end() || b == by_task.end()) continue;
    const TraceRecord &left = *a->second, &right = *b->second;
    file.arrow(left.worker, left.start_ns + left.duration_ns, right.worker, right.start_ns);
  }
  for (const MemoryRecord& r : trace.memory) {
    file.allocated(r.number, r.start_ns,
                   "\"bytes\":" + std::to_string(r.bytes) + ",\"task\":" + std::to_string(r.task) +
                       ",\"source\":" + quoted(trace.sites[r.site]));
    if (r.end_ns != MemoryRecord::kHeld) file.freed(r.number, r.end_ns);
  }
  file.finish("\"dropped\":" + std::to_string(trace.dropped) +
              ",\"memory_dropped\":" + std::to_string(trace.memory_dropped));
}

}  // namespace pto
