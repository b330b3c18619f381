// SPDX-License-Identifier: Apache-2.0
// VirtualCores: runs the engine's workers on one thread, in virtual time that a seed determines.
//
//     VirtualCores cores({.seed = 7});
//     options.steps = &cores;
//     options.workers = 1024;
//     run_tasks(options, orchestrate);      // the engine's own code
//     cores.now_ns();                       // when the run ended
//
// Each worker is a fiber with a clock; the worker with the lowest clock goes on. Engine steps and
// kernels advance their worker's clock by set costs. If the cores are shaken, the seed draws the
// costs instead, some of them long, so that every order that threads could take comes about; it
// also makes tasks fail and throw. A run in which no worker can go on, or that takes too many
// steps, throws an Error with the seed.
// Invariant: the same seed, options and orchestration give the same run in every process. A
// processor's reordering of memory is not simulated: the steps of all workers have one order.
// Thread safety: one thread, for one run.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "pto/launch/block.hpp"
#include "pto/launch/fiber.hpp"
#include "pto/tasks/cores/steps.hpp"

namespace pto {

struct VirtualCoresOptions {
  uint64_t seed = 1;
  bool is_shaken = true;         // the seed draws the times of steps
  bool runs_kernels = true;      // else they only take time
  double fails = 0, throws = 0;  // shares of tasks with kernels, drawn by task id

  // Duration of a block of a task in ns; null: drawn by the seed, below 2 us.
  std::function<uint64_t(const Task&, int32_t block)> duration;

  // Costs for unshaken cores: of each step, and of waking up, soon or after a while.
  std::array<uint32_t, kSteps> step_ns{};
  uint64_t wake_soon_ns = 0, wake_late_ns = 0, soon_ns = 0;

  int64_t ready_max = 0;            // entries of a deque; 0: enough for any task once a worker
  uint64_t steps_max = 1ull << 32;  // a longer run counts as endless
};

class VirtualCores : public Steps {
 public:
  explicit VirtualCores(VirtualCoresOptions options);
  ~VirtualCores() override;

  void run(int workers, void (*work)(void* engine, int worker), void* engine) override;
  void at(Step step, Task* task) override;
  int32_t call(Task& task, int32_t block, const std::function<int32_t()>& real) override;
  void sleep(const std::atomic<uint32_t>& events, uint32_t seen) override;
  void wake(const std::atomic<uint32_t>& events) override;
  uint64_t now_ns() const override { return current_ == nullptr ? end_ns_ : current_->clock; }
  int64_t ready_places(int64_t window, int workers) const override;

  // Makes the running worker busy for so long; for kernels and orchestrations.
  void pass(uint64_t ns);

  // The seed's decision for a task with a kernel.
  enum class Fate { Runs, Fails, Throws };
  Fate fate_of(TaskId task) const;

  uint64_t steps() const { return steps_; }
  int64_t tasks_called() const { return called_; }

 private:
  struct Core {
    int index = 0;
    uint64_t clock = 0, slept_at = 0;
    bool is_asleep = false;
    const std::atomic<uint32_t>* events = nullptr;
    uint32_t seen = 0;
    Fiber fiber;
    Block block;
    ScratchStack scratch;
  };
  struct Turn {
    uint64_t clock, order;  // breaks ties of clocks: drawn by the seed, or by entry
    Core* core;
    bool operator<(const Turn& other) const {  // the queue's top is its greatest
      return clock != other.clock ? clock > other.clock : order > other.order;
    }
  };
  struct Abandoned {};  // unwinds the workers of a run that stands still

  void enter(Core& core);
  void yield();
  void suspend();
  void resume(Core& core);
  uint64_t drawn_step();
  bool wake_core(Core& core);  // always true
  void end(const Core& core);
  void abandon();
  [[noreturn]] void refuse(const std::string& what) const;

  const VirtualCoresOptions options_;
  std::mt19937_64 random_;
  std::deque<std::unique_ptr<Core>> cores_;
  std::priority_queue<Turn> turns_;
  std::vector<Core*> asleep_;
  Core* current_ = nullptr;
  uint64_t end_ns_ = 0, entered_ = 0, steps_ = 0;
  int64_t called_ = 0;
  bool is_abandoned_ = false;
  std::vector<std::unique_ptr<TaskKernel>> faulty_;
  void (*work_)(void*, int) = nullptr;
  void* engine_ = nullptr;
};

}  // namespace pto
