// SPDX-License-Identifier: Apache-2.0
// Capture and replay: keeps the tasks of a run as a graph that runs again without its
// orchestration.
//
//     TaskGraph graph(program, tensors, scalars);          // orchestrates, runs nothing
//     if (graph.fits(tensors, scalars)) graph.replay(tensors, options, scalars);
//
// A graph holds its edges, the place of each task's tensors in the run's arguments, and the memory
// that the orchestration allocated. A replay patches the addresses that have changed; it allocates
// nothing, except queues in the first replay by several workers. One worker runs the tasks in the
// order of submission, several count predecessors.
// Invariant: fits() requires the element types, shapes, strides, overlaps and scalars of the
// capture, except scalars that tasks got only as expressions, which a replay evaluates. An
// orchestration that waits for elements cannot be captured.
// Thread safety: replays of one graph run one after another; everything else is constant.
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

// One task of a graph; the graph owns the lists that it points into.
struct GraphTask {
  const TaskKernel* kernel;  // null: the task only has edges
  pto_args args;
  int32_t blocks;
  bool start_together;
  Predicate predicate;
  const char* file;
  int32_t line;
  int32_t predecessors;
  int32_t first_successor, n_successors;
};

// The state by which several workers replay a graph; made once.
struct ReplayQueues {
  std::vector<int32_t> roots;                                 // tasks without predecessors
  std::unique_ptr<std::atomic<int32_t>[]> waiting;            // by task: unfinished predecessors
  std::vector<std::unique_ptr<ReadyDeque<GraphTask>>> ready;  // of each worker
  bool is_clean = false;                                      // `waiting` counts all predecessors
};

class TaskGraph {
 public:
  // Throws what the orchestration throws, and Error if it waits. The program's kernels must outlive
  // the graph.
  TaskGraph(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
            const Numbers& scalars);
  ~TaskGraph();
  TaskGraph(const TaskGraph&) = delete;
  TaskGraph& operator=(const TaskGraph&) = delete;

  bool fits(std::span<const pto_tensor> tensors, const Numbers& scalars) const;

  // Replays on arguments that fit; without scalars, on those of the last replay or the capture. A
  // trace has one record a task, whatever its blocks. Throws Error for the first failed task, as
  // run_tasks() does.
  RunReport replay(std::span<const pto_tensor> tensors, const RunOptions& options,
                   const Numbers& scalars = {});

  int64_t tasks() const { return int64_t(tasks_.size()); }
  int64_t edges() const { return int64_t(successors_.size()); }
  int64_t bytes() const { return bytes_; }  // of its own memory
  // In the order of submission; a task's successors begin at its `first_successor`.
  std::span<const GraphTask> all_tasks() const { return tasks_; }
  std::span<const int32_t> all_successors() const { return successors_; }

 private:
  friend class Recorder;
  // An address inside an argument of the run: of a task's tensor, or of a predicate.
  struct Patch {
    int32_t argument;
    int64_t offset;  // in bytes
    int32_t tensor;  // -1: the predicate
    int32_t task;
  };
  struct Derived {  // a scalar of a task, computed from the run's scalars
    size_t place;   // among scalars_
    size_t first_step, n_steps;
    uint8_t kind;
    int32_t task;
    size_t place_in_task;
  };
  struct Shape {  // of an argument
    uint8_t type_code, type_bits;
    uint32_t flags;
    int64_t group, offset;      // the first argument that it overlaps, or itself; bytes from it
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
  std::vector<MemoryRecord> memory_;  // of these, for traces; a replay knows the sites
  int64_t bytes_ = 0, unknown_overlaps_ = 0;
  std::vector<Shape> shapes_;
  std::vector<uint64_t> captured_scalars_;
  std::vector<uint8_t> captured_kinds_;
  std::vector<bool> is_frozen_;  // captured scalars that a replay must repeat
  std::vector<Derived> derived_;
  std::vector<pto_step> steps_;           // of all derived ones
  std::vector<uint64_t> derived_values_;  // scratch of derive()
  std::vector<uint64_t> derived_of_;      // the run's scalars for which steps were evaluated
  std::vector<void*> patched_for_;        // argument addresses that the graph holds now
  ReplayQueues queues_;
  std::mutex replaying_;
};

}  // namespace pto
