// SPDX-License-Identifier: Apache-2.0
// Trace: what ran when and where in a run, and what made it take so long.
//
//     RunTrace trace;
//     options.trace = &trace;                       // of one run
//     write_trace(trace, "t.json");                 // for Perfetto and chrome://tracing
//     TraceSummary summary = summarize(trace);      // critical path, idle times, kernels
//
// Each worker keeps its last records in a ring of its own; what is overwritten is counted. A record
// is 32 bytes and costs two readings of the clock, one where tasks follow each other directly.
// Invariant: times are nanoseconds since the run began, of one clock for all workers.
// Thread safety: a RunTrace is filled by one run; afterwards it is constant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pto/runtime/tasks/task.hpp"

namespace pto {

struct TraceRecord {
  uint64_t task;  // id
  uint64_t start_ns;
  uint32_t duration_ns;  // at most 4 s are told
  uint32_t waited_ns;    // from being ready to its start
  uint16_t kernel;       // in RunTrace::kernels
  uint16_t worker;
  uint32_t site;  // in RunTrace::sites
};
static_assert(sizeof(TraceRecord) == 32);

struct RunTrace {
  size_t capacity = 1 << 16;  // records a worker, a power of two
  bool keeps_edges = true;

  std::vector<TraceRecord> records;  // by start; one a block of a task
  std::vector<std::pair<TaskId, TaskId>> edges;
  std::vector<std::string> kernels, sites;  // "file:line"; site 0 is ""
  int64_t dropped = 0;                      // records that were overwritten
  int workers = 0;
  uint64_t duration_ns = 0;  // of the run
};

// The records of one worker.
class TraceRing {
 public:
  void begin(size_t capacity) {
    records_.resize(capacity);
    count_ = 0;
  }
  bool is_on() const { return !records_.empty(); }
  void add(const TraceRecord& record) { records_[count_++ & (records_.size() - 1)] = record; }
  void end(RunTrace& into);

 private:
  std::vector<TraceRecord> records_;
  size_t count_ = 0;
};

// A clock of about 10 ns a reading, in ticks of its own.
uint64_t trace_ticks();
double ns_of_a_tick();

struct KernelTotal {
  std::string kernel;
  int64_t calls;
  uint64_t busy_ns, longest_ns;
};
struct TraceSummary {
  uint64_t duration_ns, busy_ns;     // of the run; of all workers together
  uint64_t critical_ns;              // the longest chain of tasks that follow each other
  std::vector<TaskId> critical;      // its tasks, in order
  uint64_t idle_while_ready_ns;      // of workers that had nothing while a task was ready
  uint64_t waited_ns;                // of tasks between being ready and their start
  std::vector<KernelTotal> kernels;  // the busiest first
};
TraceSummary summarize(const RunTrace& trace);

// A lane a worker, an arrow an edge. Throws Error where the file cannot be written.
void write_trace(const RunTrace& trace, const std::string& path);

}  // namespace pto
