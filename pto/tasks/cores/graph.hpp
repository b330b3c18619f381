// SPDX-License-Identifier: Apache-2.0
// Capture and replay: the tasks of a run as a graph that runs again without its orchestration.
//
//     TaskGraph graph(program, tensors, scalars);          // orchestrates, runs nothing
//     if (graph.fits(tensors, scalars)) graph.replay(tensors, options, scalars);
//
// A graph knows its edges and where each task's tensors lie in the run's arguments, and holds the
// memory that the orchestration allocated; a replay writes the addresses that have changed and
// allocates nothing, queues for the first one by several workers apart. One worker runs the tasks
// as they were submitted, several by counters.
// Invariants: fits() holds where element types, shapes, strides, overlaps of the arguments and
// the scalars are those of the capture, but for values of scalars that tasks got as expressions and
// nobody read as numbers: a replay evaluates these. An orchestration that waits for elements cannot
// be captured. Thread safety: replays of one graph follow each other; the rest is constant.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/cores/deque.hpp"
#include "pto/tasks/cores/orchestrate.hpp"

namespace pto {

// One task of a graph; its lists lie in the graph's.
struct GraphTask {
  const TaskKernel* kernel;  // null: for its edges
  pto_args args;
  int32_t blocks;
  bool start_together;
  Predicate predicate;
  const char* file;
  int32_t line;
  int32_t predecessors;
  int32_t first_successor, n_successors;
};

// What several workers need to replay a graph; made once.
struct ReplayQueues {
  std::vector<int32_t> roots;                       // that follow nobody
  std::unique_ptr<std::atomic<int32_t>[]> waiting;  // of each task: predecessors that are not done
  std::vector<std::unique_ptr<ReadyDeque<GraphTask>>> ready;  // of each worker
  bool is_clean = false;                                      // `waiting` counts all predecessors
};

class TaskGraph {
 public:
  // Throws Error: what the orchestration throws, and where it waits. The program's kernels outlive
  // the graph.
  TaskGraph(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
            const Numbers& scalars);
  ~TaskGraph();
  TaskGraph(const TaskGraph&) = delete;
  TaskGraph& operator=(const TaskGraph&) = delete;

  bool fits(std::span<const pto_tensor> tensors, const Numbers& scalars) const;

  // On arguments that fit; without scalars on those of the last replay, or of the capture. A trace
  // has one record a task, whatever its blocks. Throws Error for the first failed task, as
  // run_tasks does.
  RunReport replay(std::span<const pto_tensor> tensors, const RunOptions& options,
                   const Numbers& scalars = {});

  int64_t tasks() const { return int64_t(tasks_.size()); }
  int64_t edges() const { return int64_t(successors_.size()); }
  int64_t bytes() const { return bytes_; }  // of its own memory

 private:
  friend class Recorder;
  // An address that lies in an argument of the run: of a task's tensor, or of a predicate.
  struct Patch {
    int32_t argument;
    int64_t offset;  // in bytes
    int32_t tensor;  // -1: the predicate
    int32_t task;
  };
  struct Derived {  // a task's scalar that is computed of the run's
    size_t place;   // among scalars_
    size_t first_step, n_steps;
    uint8_t kind;
    int32_t task;
    size_t place_in_task;
  };
  struct Shape {  // of an argument
    uint8_t type_code, type_bits;
    uint32_t flags;
    int64_t group, offset;      // the first argument that it overlaps, or itself; bytes from there
    std::vector<int64_t> dims;  // sizes, then strides
    bool operator==(const Shape&) const = default;
  };
  static std::vector<Shape> shapes_of(std::span<const pto_tensor> tensors);
  void patch(std::span<const pto_tensor> tensors);
  void derive(const Numbers& scalars);

  std::vector<GraphTask> tasks_;
  std::vector<int32_t> successors_;
  std::vector<EdgeCause> causes_;  // of the edges to them
  std::vector<pto_tensor> tensors_;
  std::vector<int64_t> dims_;
  std::vector<uint64_t> scalars_;
  std::vector<Patch> patches_;
  std::vector<void*> owned_;
  int64_t bytes_ = 0, unknown_overlaps_ = 0;
  std::vector<Shape> shapes_;
  std::vector<uint64_t> captured_scalars_;
  std::vector<uint8_t> captured_kinds_;
  std::vector<bool> is_frozen_;  // the captured scalars that a replay must have
  std::vector<Derived> derived_;
  std::vector<pto_step> steps_;           // of all derived ones
  std::vector<uint64_t> derived_values_;  // while they are computed
  std::vector<uint64_t> derived_of_;      // the run's scalars
  std::vector<void*> patched_for_;        // the arguments' addresses
  ReplayQueues queues_;
  std::mutex replaying_;
};

}  // namespace pto
