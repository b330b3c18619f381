// SPDX-License-Identifier: Apache-2.0
// Task: one call of a kernel that waits for earlier tasks: what the submitting thread gives, and
// the state by which workers release it.
//
//     TaskEdge* const edge = task.new_edge(&task);      // for the list of a predecessor
//     const bool must_wait = !earlier.is_done();
//
// A task takes 512 bytes if it has few edges and arguments. Its incoming edges lie in the task
// itself, so that they live as long as any worker reads them. A finished task closes its list of
// successors in one exchange; after that only the submitting thread may touch its slot, and gives
// it to a later task.
// Invariant: a task runs only once `pending` is 0.
// Thread safety: all threads share `pending`, `successors`, `cause` and the block counters. The
// worker that makes the task ready writes `turns_taken`, `next_waiting` and `ready_ticks`; the
// submitting thread writes the rest before it releases the task, and workers only read it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pto/abi/host.h"
#include "pto/launch/launch.hpp"
#include "pto/launch/number.hpp"
#include "pto/tasks/book/history.hpp"

namespace pto {

// A kernel with the name that errors and traces show.
struct TaskKernel {
  pto_kernel function = nullptr;
  std::string name;
  std::vector<pto_parameter> numbers = {};             // its non-tensor parameters, if known
  std::shared_ptr<const CoreKernels> cores = nullptr;  // of a mixed task, instead of `function`

  // Returns scalar `place` in the form that the kernel's parameter takes. Throws Error if they do
  // not match; without known parameters the bits stay as they are.
  uint64_t slot(size_t place, ScalarNumber number) const {
    if (place >= numbers.size()) return number.bits;
    return slot_for(numbers[place], number, {name.c_str(), place});
  }

  // Runs all blocks as one launch, or `block` alone of a mixed task, as pto_launch() does.
  int32_t launch(const pto_args& args, int32_t blocks, int32_t block = kAllBlocks) const {
    return cores != nullptr ? launch_cores(*cores, args, blocks, block)
                            : pto_launch(function, &args, blocks);
  }
};
TaskKernel exported_kernel(pto_kernel function, std::string name);  // with its exported parameters

struct Task;
struct Allocation;
class ReduceTurn;

// "`to` waits for the task in whose list this is."
struct TaskEdge {
  Task* to;
  TaskEdge* next;
};

enum class Compare : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };

// A task runs if `*element compare value` holds once its producers are done; else it is skipped.
struct Predicate {
  const void* element = nullptr;  // null: the task runs
  uint8_t type_code = 0, type_bits = 0;
  Compare compare = Compare::NotEqual;
  double value = 0;
};
bool holds(const Predicate& predicate);

// Edges beyond those that fit into the task itself.
struct MoreEdges {
  static constexpr int kEdges = 30;
  TaskEdge edges[kEdges];
  std::unique_ptr<MoreEdges> next;
};

struct alignas(64) Task {
  static constexpr int kEdges = 6;  // without asking for memory
  static constexpr size_t kOwnBytes = 256;

  // The first cache lines hold what every worker that runs the task reads.
  std::atomic<int32_t> pending{0};  // unfinished predecessors, plus one during submission
  std::atomic<int32_t> cause{-1};   // index of the failure that keeps it from running
  std::atomic<TaskEdge*> successors{nullptr};
  TaskId id = 0;
  const TaskKernel* kernel = nullptr;
  // The copied arguments: tensors, scalars, allocations that it holds, turns that it takes before
  // it runs, sizes and strides, a predicate. They lie in `own` if they fit.
  char* given = own;
  const Predicate* predicate = nullptr;  // null: none
  int32_t n_tensors = 0, n_scalars = 0;
  int32_t blocks = 1;
  int32_t together = 0;  // blocks that run as one: they may wait for each other; 0: see `blocks`

  int32_t n_holds = 0, n_turns = 0, turns_taken = 0;
  int32_t n_edges = 0;
  const char* file = "";  // where it was submitted
  int32_t line = 0;
  uint32_t site = 0;             // of a trace
  uint64_t ready_ticks = 0;      // when it could have started
  Task* next_waiting = nullptr;  // for a turn to reduce
  std::atomic<int32_t> next_block{0}, blocks_left{1};
  uint16_t kernel_number = 0;  // of a trace

  alignas(8) char own[kOwnBytes];
  TaskEdge edges[kEdges];
  std::unique_ptr<MoreEdges> more_edges;  // kept for later tasks
  MoreEdges* open_edges = nullptr;        // the chunk that gives new ones
  std::unique_ptr<char[]> more;           // kept for later tasks
  uint32_t more_bytes = 0;

  pto_tensor* tensors() { return reinterpret_cast<pto_tensor*>(given); }
  uint64_t* scalars() { return reinterpret_cast<uint64_t*>(tensors() + n_tensors); }
  Allocation** holds() { return reinterpret_cast<Allocation**>(scalars() + n_scalars); }
  ReduceTurn** turns() { return reinterpret_cast<ReduceTurn**>(holds() + n_holds); }

  bool is_done() const;
  // Prefetches the cache lines that running the task needs from the core that has them.
  void fetch() const {
    for (int line = 0; line < 4; ++line)
      __builtin_prefetch(reinterpret_cast<const char*>(this) + 64 * line);
  }
  void fetch_to_write() {
    for (int line = 0; line < 4; ++line)
      __builtin_prefetch(reinterpret_cast<char*>(this) + 64 * line, 1);
  }
  void take_memory(size_t bytes) {
    given = own;
    if (bytes > kOwnBytes) [[unlikely]]
      take_more(bytes);
  }
  TaskEdge* new_edge(Task* to) {
    TaskEdge* const edge = n_edges < kEdges ? &edges[n_edges] : more_edge();
    ++n_edges;
    return &(*edge = {to, nullptr});
  }

 private:
  void take_more(size_t bytes);
  TaskEdge* more_edge();
};
static_assert(sizeof(Task) <= 512);

// The end of a list that is closed to successors.
inline TaskEdge kClosed{nullptr, nullptr};

inline bool Task::is_done() const { return successors.load(std::memory_order_acquire) == &kClosed; }

}  // namespace pto
