// SPDX-License-Identifier: Apache-2.0
// Simulate: says how long a traced run would take on other cores, or with something changed.
//
//     RecordedRun recorded = record_of(trace);            // of level kEdges, with nothing dropped
//     SimulatedTime on_64 = simulate(recorded, {.cores = 64});
//     on_64.duration_ns;  on_64.critical_ns;              // no number of cores beats the latter
//
// The engine itself schedules the recorded tasks on virtual cores. Durations and costs of
// submission come from the trace, other costs are measured once in this process. Kernels take as
// long as they did: shared memory and caches are not simulated.
// Invariant: the same record and the same change give the same time.
// Thread safety: pure functions; the measurement happens once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pto/tasks/book/trace.hpp"

namespace pto {

// The engine's costs on this machine, besides submission.
struct SchedulingCosts {
  uint32_t submit_ns;     // of an empty task without tensors
  uint32_t task_ns;       // to take a ready task, call an empty kernel, and release what follows
  uint32_t replay_ns;     // the same in a replay
  uint32_t look_ns;       // a worker looks through all others
  uint32_t steal_ns;      // a task moves to another core
  uint64_t wake_soon_ns;  // a spinning worker sees a task
  uint64_t wake_late_ns;  // the system wakes a sleeping worker
  uint64_t soon_ns;       // how long a worker spins before it sleeps
};
const SchedulingCosts& scheduling_costs();  // the first call takes some milliseconds

struct RecordedTask {
  uint16_t kernel = 0;
  uint32_t site = 0;
  std::vector<uint64_t> block_ns;  // measured; empty: no kernel ran
  uint64_t gap_ns = 0;             // orchestration time before the task
  uint64_t submit_ns = 0;
  std::vector<TraceEdge> follows;  // `to` is this task
  std::vector<int64_t> turns;
  std::vector<TaskId> awaited;  // by the orchestration, before this submission
};
struct RecordedRun {
  std::vector<RecordedTask> tasks;  // task 1 first
  std::vector<std::string> kernels, sites;
  int workers = 0;
  int64_t window = 4096;
  bool is_replay = false;
  uint64_t duration_ns = 0;  // as measured
};

// Throws Error for a trace below kEdges, and for one with dropped records.
RecordedRun record_of(const RunTrace& trace);

struct SimulationSetup {
  int cores = 1;
  const SchedulingCosts* costs = nullptr;  // null: measured on this machine
};
struct SimulatedTime {
  uint64_t duration_ns, busy_ns;  // of the run; of all cores together
  uint64_t critical_ns;           // the longest chain of tasks
};
SimulatedTime simulate(const RecordedRun& run, const SimulationSetup& setup);

// Returns the longest chain of tasks in ns, by their longest blocks, and its tasks in order.
uint64_t critical_path(const RecordedRun& run, std::vector<TaskId>* tasks = nullptr);

}  // namespace pto
