// SPDX-License-Identifier: Apache-2.0
// Trace: records what ran when and where in a run, and explains how long the run took.
//
//     RunTrace trace;
//     trace.level = TraceLevel::kEdges;
//     options.trace = &trace;                       // of one run
//     write_trace(trace, "t.json");                 // for Perfetto and chrome://tracing
//     TraceSummary summary = summarize(trace);      // critical path, idle times, kernels
//
// Each worker keeps its last records in a ring and counts those that it overwrites. A task's takes
// 32 bytes and two clock readings; one reading if tasks follow each other directly, below
// kSubmissions (from there on a record covers its kernel alone). An allocation's takes 48 bytes and
// a clock reading at each end; the worker that frees it writes it.
// Invariant: times are nanoseconds since the run began, by one clock for all workers.
// Thread safety: one run fills a RunTrace; afterwards it is constant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pto/base/ticks.hpp"
#include "pto/tasks/book/failures.hpp"
#include "pto/tasks/book/history.hpp"

namespace pto {

struct TraceRecord {
  uint64_t task;  // id
  uint64_t start_ns;
  uint32_t duration_ns;  // saturates at 4 s
  uint32_t waited_ns;    // from being ready to its start
  uint16_t kernel;       // in RunTrace::kernels
  uint16_t worker;
  uint32_t site;  // in RunTrace::sites
};
static_assert(sizeof(TraceRecord) == 32);

// Memory that the runtime took for a tensor, and for how long.
struct MemoryRecord {
  static constexpr uint64_t kHeld = ~uint64_t{0};

  uint64_t number;  // in the order of allocation, from 1
  uint64_t start_ns;
  uint64_t end_ns;  // kHeld: the run did not free it
  int64_t bytes;    // as asked for
  uint64_t task;    // the first that uses it; 0: none
  uint32_t site;    // that submits this task
};

// Each level keeps what the levels before it keep.
enum TraceLevel : int { kCounters, kRecords, kSubmissions, kEdges };

// Why a task follows another; the first reason if there are several.
enum class EdgeCause : uint8_t {
  Data,    // it reads what the other writes, or reads and writes the same
  After,   // it was submitted to follow it
  Storage  // it only overwrites what the other reads or writes: another buffer would do
};
inline EdgeCause cause_of(Access access) {
  return access == Access::Write ? EdgeCause::Storage : EdgeCause::Data;
}
struct TraceEdge {
  TaskId from, to;
  EdgeCause cause;
};

// The cost of a task to the submitting thread.
struct TraceSubmission {
  TaskId task;
  uint64_t start_ns;
  uint64_t waited_ns;  // for a slot, while it ran other tasks, or in the task, if it ran it itself
  uint32_t cost_ns;    // the rest of submit()
  uint16_t kernel;
  uint16_t blocks;
  uint32_t site;
  std::vector<TaskId> awaited;  // tasks for which the orchestration waited before it
  uint64_t awaited_ns;
};

struct RunTrace {
  int level = kRecords;
  size_t capacity = 1 << 16;  // records a worker, a power of two

  std::vector<int64_t> calls;                // of each kernel, also of records that were dropped
  std::vector<TraceRecord> records;          // by start; one a block of a task
  std::vector<MemoryRecord> memory;          // by number
  std::vector<TraceSubmission> submissions;  // in order
  std::vector<TraceEdge> edges;              // by the earlier task, then the later
  std::vector<TaskFailure> failures;         // of its tasks
  std::vector<std::pair<TaskId, int64_t>> turns;  // tasks that reduce, and the number of their box
  std::vector<std::string> kernels, sites;        // "file:line"; kernel 0 is none, site 0 is ""
  int64_t dropped = 0;                            // records of tasks that were overwritten
  int64_t memory_dropped = 0;                     // records of memory, likewise
  int workers = 0;
  bool is_replay = false;    // of a graph: submitted before it began
  bool is_bound = false;     // tasks name their workers, as at level host
  uint64_t duration_ns = 0;  // of the run
  double record_ns = 0;      // that a record costs, measured
};

// Keeps the last records; the capacity is a power of two.
template <class Record>
class Ring {
 public:
  void begin(size_t capacity) {
    capacity_ = capacity;
    count_ = 0;
    if (capacity_ > 0) records_.reset(new Record[capacity_]);  // touched where it is used
  }
  void add(const Record& record) { records_[count_++ & (capacity_ - 1)] = record; }
  // Appends the records and frees the ring; returns the number of those that were overwritten.
  int64_t end(std::vector<Record>& into) {
    const size_t kept = std::min(count_, capacity_);
    into.insert(into.end(), records_.get(), records_.get() + kept);
    records_.reset();
    return int64_t(count_ - kept);
  }

 private:
  std::unique_ptr<Record[]> records_;
  size_t capacity_ = 0, count_ = 0;
};

// The records of one worker; the oldest are overwritten.
class TraceRing {
 public:
  void begin(const RunTrace& trace) {
    const size_t capacity = trace.level >= kRecords ? trace.capacity : 0;
    records_.begin(capacity);
    memory_.begin(capacity);
    calls_.clear();
  }
  void count(uint16_t kernel) {
    if (kernel >= calls_.size()) calls_.resize(size_t{kernel} + 1);
    ++calls_[kernel];
  }
  void add(const TraceRecord& record) { records_.add(record); }
  void add(const MemoryRecord& record) { memory_.add(record); }
  void end(RunTrace& into);

 private:
  Ring<TraceRecord> records_;
  Ring<MemoryRecord> memory_;
  std::vector<int64_t> calls_;
};

// Empties the trace for a run. Without rings, records cost nothing that could be measured.
void begin_trace(RunTrace& trace, int workers, bool has_rings);

// Numbers what a trace names, in the order of first use.
template <class Key>
class TraceNames {
 public:
  template <class Text>
  size_t number(const Key& key, std::vector<std::string>& names, const Text& text) {
    const auto [found, is_new] = known_.try_emplace(key, names.size());
    if (is_new) names.push_back(text());
    return found->second;
  }

 private:
  std::map<Key, size_t> known_;
};

// Clock readings of a task, in ticks of `ns` each.
struct TraceTimes {
  uint64_t run, ready, start, end;
  double ns;
};
// Makes a record; times saturate.
inline TraceRecord record_of(TaskId task, const TraceTimes& times, uint16_t kernel, int worker,
                             uint32_t site) {
  const auto since = [&](uint64_t from, uint64_t to) {
    return to > from ? double(to - from) * times.ns : 0.0;
  };
  const auto narrow = [](double value) { return uint32_t(std::min(value, 4294967295.0)); };
  return {task,
          uint64_t(since(times.run, times.start)),
          narrow(since(times.start, times.end)),
          narrow(since(times.ready, times.start)),
          kernel,
          uint16_t(worker),
          site};
}

// Sorts what the rings have gathered.
void sort_trace(RunTrace& trace);

double record_cost_ns();  // of one record: measured once

struct KernelTotal {
  std::string kernel;
  int64_t calls;
  uint64_t busy_ns, longest_ns;
};
struct TraceSummary {
  uint64_t duration_ns, busy_ns;     // of the run; of all workers together
  uint64_t critical_ns;              // the longest chain of tasks that follow each other
  std::vector<TaskId> critical;      // its tasks, in order
  uint64_t idle_while_ready_ns;      // idle times of workers while a task was ready
  uint64_t waited_ns;                // of tasks between being ready and their start
  uint64_t starved_ns;               // idle times of workers while no task was ready
  uint64_t tracing_ns;               // that records cost, of all workers together
  std::vector<KernelTotal> kernels;  // the busiest first
};
TraceSummary summarize(const RunTrace& trace);

// Writes one lane a worker and one arrow an edge. Throws Error if the file cannot be written.
void write_trace(const RunTrace& trace, const std::string& path);

}  // namespace pto
