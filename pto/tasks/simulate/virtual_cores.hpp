// SPDX-License-Identifier: Apache-2.0
// VirtualCores: runs the engine's workers on one thread, in virtual time that a seed determines.
//
//     VirtualCores cores({.seed = 7});
//     options.steps = &cores;
//     options.workers = 1024;
//     run_tasks(options, orchestrate);      // the engine's own code
//     cores.now_ns();                       // when the run ended
//
// Each worker is an actor (virtual_time.hpp). Engine steps and kernels advance its clock by set
// costs; if the cores are shaken, the seed draws them, and makes tasks fail and throw. A run in
// which no worker can go on, or that takes too many steps, throws an Error with the seed.
// Invariant: the same seed, options and orchestration give the same run in every process.
// Thread safety: one thread, for one run.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "pto/tasks/cores/steps.hpp"
#include "pto/tasks/simulate/virtual_time.hpp"

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
  uint64_t now_ns() const override { return has_ended_ ? end_ns_ : time_.now_ns(); }
  int64_t ready_places(int64_t window, int workers) const override;

  // Makes the running worker busy for `ns`; kernels and orchestrations call it.
  void pass(uint64_t ns) { time_.pass(ns); }

  // The seed's decision for a task with a kernel.
  enum class Fate { Runs, Fails, Throws };
  Fate fate_of(TaskId task) const;

  uint64_t steps() const { return time_.steps(); }
  int64_t tasks_called() const { return called_; }

 private:
  struct Core {
    VirtualTime::Actor* actor = nullptr;
    bool is_asleep = false;
    uint64_t slept_at = 0;
    const std::atomic<uint32_t>* events = nullptr;
    uint32_t seen = 0;
  };

  void wake_core(Core& core);
  void end();

  const VirtualCoresOptions options_;
  VirtualTime time_;
  std::vector<Core> cores_;
  std::vector<Core*> asleep_;
  bool has_ended_ = false;
  uint64_t end_ns_ = 0;
  int64_t called_ = 0;
  std::vector<std::unique_ptr<TaskKernel>> faulty_;
};

}  // namespace pto
