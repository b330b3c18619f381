// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/book/advice.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace pto {
namespace {

constexpr size_t kMostKernels = 8, kMostSites = 4;  // the busiest ones that are tried

uint64_t busy(const RecordedTask& task) {
  return std::accumulate(task.block_ns.begin(), task.block_ns.end(), uint64_t{0});
}

// Returns the `most` keys with the greatest sums.
template <class Key>
std::vector<Key> greatest(const std::map<Key, uint64_t>& sums, size_t most) {
  std::vector<Key> keys;
  for (const auto& [key, sum] : sums)
    if (sum > 0) keys.push_back(key);
  std::sort(keys.begin(), keys.end(), [&](Key a, Key b) { return sums.at(a) > sums.at(b); });
  keys.resize(std::min(keys.size(), most));
  return keys;
}

std::string place_of(const RecordedRun& run, uint32_t site) {
  return site < run.sites.size() && site != 0 ? " at " + run.sites[site] : "";
}

// Tries changes on copies of a run.
class Adviser {
 public:
  Adviser(const RecordedRun& run, const SchedulingCosts* costs)
      : run_(run), costs_(costs != nullptr ? *costs : scheduling_costs()) {
    advice_.duration_ns = time_of(run_, run_.workers, costs_);
  }

  Advice advise() {
    try_workers();
    try_kernels();
    try_split();
    try_buffers();
    try_window();
    try_larger_tasks();
    std::stable_sort(
        advice_.changes.begin(), advice_.changes.end(),
        [](const Change& a, const Change& b) { return a.duration_ns < b.duration_ns; });
    return std::move(advice_);
  }

 private:
  static uint64_t time_of(const RecordedRun& run, int cores, const SchedulingCosts& costs) {
    return simulate(run, {cores, &costs}).duration_ns;
  }
  void note(ChangeKind kind, std::string what, uint64_t duration_ns) {
    if (duration_ns < advice_.duration_ns)
      advice_.changes.push_back({kind, std::move(what), duration_ns});
  }

  void try_workers() {
    const int more = 2 * run_.workers;
    note(ChangeKind::Workers,
         std::to_string(more) + " workers instead of " + std::to_string(run_.workers),
         time_of(run_, more, costs_));
  }

  void try_kernels() {
    std::map<uint16_t, uint64_t> times;
    for (const RecordedTask& task : run_.tasks) times[task.kernel] += busy(task);
    for (uint16_t kernel : greatest(times, kMostKernels)) {
      RecordedRun changed = run_;
      for (RecordedTask& task : changed.tasks)
        if (task.kernel == kernel)
          for (uint64_t& ns : task.block_ns) ns /= 2;
      note(ChangeKind::Kernel, "kernel " + run_.kernels[kernel] + " at twice its speed",
           time_of(changed, run_.workers, costs_));
    }
  }

  // Tries the longest task of the critical path as twice as many blocks.
  void try_split() {
    std::vector<TaskId> critical;
    critical_path(run_, &critical);
    if (critical.empty()) return;
    const TaskId longest = *std::max_element(
        critical.begin(), critical.end(),
        [&](TaskId a, TaskId b) { return busy(run_.tasks[a - 1]) < busy(run_.tasks[b - 1]); });
    RecordedRun changed = run_;
    RecordedTask& task = changed.tasks[longest - 1];
    std::vector<uint64_t> halves;
    for (uint64_t ns : task.block_ns) {
      halves.push_back(ns / 2);
      halves.push_back(ns - ns / 2);
    }
    task.block_ns = std::move(halves);
    note(ChangeKind::Split,
         "task " + std::to_string(longest) + " (" + run_.kernels[task.kernel] + ")" +
             place_of(run_, task.site) + " in two halves",
         time_of(changed, run_.workers, costs_));
  }

  void try_buffers() {
    std::map<uint32_t, uint64_t> counts;
    for (const RecordedTask& task : run_.tasks)
      for (const TraceEdge& edge : task.follows)
        counts[task.site] += edge.cause == EdgeCause::Storage;
    for (uint32_t site : greatest(counts, kMostSites))
      note(ChangeKind::Buffer,
           "an output of its own for each task" + place_of(run_, site) +
               ", which overwrites what others use",
           time_of(with_own_buffers(site), run_.workers, costs_));
  }

  // Drops the storage edges of the site's tasks; later writers of the same memory inherit them.
  RecordedRun with_own_buffers(uint32_t site) const {
    RecordedRun changed = run_;
    std::map<TaskId, std::vector<TraceEdge>> dropped;
    for (RecordedTask& task : changed.tasks) {
      const auto is_storage = [](const TraceEdge& edge) {
        return edge.cause == EdgeCause::Storage;
      };
      if (task.site == site) {
        for (const TraceEdge& edge : task.follows)
          if (is_storage(edge)) dropped[edge.to].push_back(edge);
        std::erase_if(task.follows, is_storage);
        continue;
      }
      const size_t own = task.follows.size();
      for (size_t i = 0; i < own; ++i) {
        const TraceEdge edge = task.follows[i];
        if (!is_storage(edge)) continue;
        for (const TraceEdge& before : dropped[edge.from])
          task.follows.push_back({before.from, edge.to, EdgeCause::Storage});
      }
    }
    return changed;
  }

  void try_window() {
    if (run_.is_replay || int64_t(run_.tasks.size()) <= run_.window) return;
    RecordedRun changed = run_;
    changed.window *= 4;
    note(ChangeKind::Window, "window=" + std::to_string(changed.window) + " tasks in flight",
         time_of(changed, run_.workers, costs_));
  }

  // Merges tasks in pairs: the work stays, half of the cost per task goes.
  void try_larger_tasks() {
    RecordedRun changed = run_;
    for (RecordedTask& task : changed.tasks) task.submit_ns /= 2;
    SchedulingCosts halved = costs_;
    for (uint32_t* ns : {&halved.task_ns, &halved.replay_ns, &halved.look_ns, &halved.steal_ns})
      *ns /= 2;
    note(ChangeKind::LargerTasks, "half as many tasks, each twice as large",
         time_of(changed, run_.workers, halved));
  }

  const RecordedRun& run_;
  const SchedulingCosts costs_;
  Advice advice_{};
};

}  // namespace

const char* name(ChangeKind kind) {
  constexpr const char* kNames[] = {"workers", "kernel", "split",
                                    "buffer",  "window", "larger tasks"};
  return kNames[size_t(kind)];
}

Advice advise(const RecordedRun& run, const SchedulingCosts* costs) {
  return Adviser(run, costs).advise();
}

}  // namespace pto
