// SPDX-License-Identifier: Apache-2.0
// Task: one call of a kernel that waits for earlier ones. What the submitting thread gives, and
// the state by which workers release it.
//
// A task's edges lie in the task that waits, so that they live as long as anybody looks at them. A
// finished task closes its list of successors in one exchange; after that only the submitting
// thread may touch its slot, and gives it to a later task.
// Thread safety: `pending`, `successors`, `cause` and the blocks are shared; the rest is written by
// the submitting thread before the task is released, and read by those that run it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pto/isa/host.hpp"
#include "pto/runtime/tasks/history.hpp"

namespace pto {

// A kernel by the name that errors and traces show.
struct TaskKernel {
  pto_kernel function = nullptr;
  std::string name;
};

struct Task;
struct Allocation;
class ReduceTurn;

// "`to` waits for the task in whose list this is."
struct TaskEdge {
  Task* to;
  TaskEdge* next;
};

enum class Compare : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

// A task runs where *element `compare` value holds once its producers are done; else it is skipped.
struct Predicate {
  const void* element = nullptr;  // null: the task runs
  uint8_t type_code = 0, type_bits = 0;
  Compare compare = Compare::NotEqual;
  double value = 0;
};
bool holds(const Predicate& predicate);

struct alignas(64) Task {
  static constexpr int kEdges = 6;  // without asking for memory

  std::atomic<int32_t> pending{0};  // tasks that it waits for, and one while it is submitted
  std::atomic<int32_t> cause{-1};   // the failure that keeps it from running
  std::atomic<TaskEdge*> successors{nullptr};
  TaskId id = 0;
  const TaskKernel* kernel = nullptr;
  pto_args args{};

  TaskEdge edges[kEdges];
  int32_t n_edges = 0;
  std::vector<std::unique_ptr<TaskEdge[]>> more_edges;  // kEdges each

  int32_t blocks = 1;
  bool start_together = false;  // its blocks may wait for each other
  std::atomic<int32_t> next_block{0}, blocks_left{1};
  Predicate predicate;
  const char* file = "";  // where it was submitted
  int32_t line = 0;
  uint32_t site = 0;  // of a trace
  uint16_t kernel_number = 0;
  uint64_t ready_ticks = 0;  // when it could have started

  std::vector<pto_tensor> tensors;
  std::vector<int64_t> dims;  // sizes and strides of all tensors
  std::vector<uint64_t> scalars;
  std::vector<Allocation*> holds;  // kept alive until the task is done
  std::vector<ReduceTurn*> turns;  // taken before it runs, in this order
  size_t turns_taken = 0;

  bool is_done() const;
  TaskEdge* new_edge(Task* to) {
    if (n_edges < kEdges) [[likely]]
      return &(edges[n_edges++] = {to, nullptr});
    const int more = n_edges++ - kEdges;
    if (size_t(more / kEdges) == more_edges.size())
      more_edges.push_back(std::make_unique<TaskEdge[]>(kEdges));
    return &(more_edges[size_t(more / kEdges)][more % kEdges] = {to, nullptr});
  }
};

// The end of a list that takes no more successors.
inline TaskEdge kClosed{nullptr, nullptr};

inline bool Task::is_done() const { return successors.load(std::memory_order_acquire) == &kClosed; }

}  // namespace pto
