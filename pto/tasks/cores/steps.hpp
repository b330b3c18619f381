// SPDX-License-Identifier: Apache-2.0
// Steps: replaces threads and clocks when a run is simulated.
//
//     RunOptions options;
//     options.steps = &cores;          // virtual_cores.hpp; null: the pool's threads
//     run_tasks(options, orchestrate);
//
// The engine calls at() at each point where its workers interact: before it changes what others
// read, and before it reads what others change. A simulation can run other workers first there.
// Invariant: the engine calls at() with no lock held, and sleep() where it would block its thread.
// Thread safety: only the thread that runs the simulation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "pto/tasks/cores/task.hpp"

namespace pto {

enum class Step : uint8_t {
  Link,       // a successor enters a task's list
  Submitted,  // a task has all its edges
  Look,       // a worker has nothing of its own
  Pass,       // it leaves another worker its few tasks
  Steal,      // it takes a task of another
  Put,        // a ready task enters a deque
  Block,      // a worker takes a block of a task that has several
  Close,      // a task is done and takes no more successors
  Release,    // a successor counts down
  Rest        // a worker is about to sleep
};
inline constexpr int kSteps = int(Step::Rest) + 1;

class Steps {
 public:
  virtual ~Steps() = default;

  // Calls work(engine, w) for each worker, instead of parallel_for().
  virtual void run(int workers, void (*work)(void* engine, int worker), void* engine) = 0;

  // Called when the running worker is about to take the step; `task` is the task concerned, or
  // null.
  virtual void at(Step step, Task* task) = 0;

  // Runs a block of a task; real() runs its kernel.
  virtual int32_t call(Task& task, int32_t block, const std::function<int32_t()>& real) = 0;

  // These act as std::atomic's wait() and notify_all().
  virtual void sleep(const std::atomic<uint32_t>& events, uint32_t seen) = 0;
  virtual void wake(const std::atomic<uint32_t>& events) = 0;

  virtual uint64_t now_ns() const = 0;

  // Returns the capacity of a worker's deque for a window of tasks: a power of two, enough for all
  // entries.
  virtual int64_t ready_places(int64_t window, int workers) const = 0;
};

}  // namespace pto
