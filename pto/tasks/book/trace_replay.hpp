// SPDX-License-Identifier: Apache-2.0
// ReplayTrace: what a replay of a graph writes into its trace.
//
//     ReplayTrace trace(*options.trace, tasks, workers);    // before its workers begin
//     trace.add(task, worker, start);                       // of a kernel that has ended
//     trace.end(successors, causes, memory);                // after they have ended
//
// A replay submits nothing, so level kSubmissions adds nothing to kRecords.
// Invariant: tasks keep the ids that their submissions returned, from 1.
// Thread safety: the worker that runs or releases a task calls add() and is_ready() for it.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/cores/graph.hpp"

namespace pto {

class ReplayTrace {
 public:
  ReplayTrace(RunTrace& into, std::span<const GraphTask> tasks, int workers);

  void is_ready(int64_t task) {
    if (trace_.level >= kRecords) ready_ticks_[size_t(task)] = read_ticks();
  }
  void add(int64_t task, int32_t worker, uint64_t start);
  // `memory` is the graph's, all the time; its records lack sites.
  void end(std::span<const int32_t> successors, std::span<const EdgeCause> causes,
           std::span<const MemoryRecord> memory);

 private:
  struct Name {
    uint16_t kernel = 0;
    uint32_t site = 0;
  };

  RunTrace& trace_;
  const std::span<const GraphTask> tasks_;
  std::vector<Name> names_;
  std::vector<uint64_t> ready_ticks_;
  std::deque<TraceRing> rings_;  // of each worker
  uint64_t start_ = 0;
};

}  // namespace pto
