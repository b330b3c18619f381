// SPDX-License-Identifier: Apache-2.0
// Runs that end for their caller when their deadline passes, even where a kernel or the
// orchestration never returns: then what the run's threads hold is left to them for ever.
//
//     auto kept = std::make_shared<Everything>(...);      // code, arrays, arguments
//     run_contained(kept->program, kept->tensors, kept->scalars, {.deadline_s = 0.1}, kept, {});
//
// The run is driven by a thread of its own, and the caller waits. From the deadline on no task
// begins and nothing is submitted. Where user code has not returned kGrace later, the threads that
// run it are abandoned, the process gets another pool, and the caller an error. Such a thread ends
// quietly if its code returns after all.
// Invariant: at most kAbandonedRunsMax runs are abandoned at a time; a further one is waited for.
// Thread safety: run_contained from any thread; of RunWatch see its sections.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/launch/pool.hpp"
#include "pto/tasks/cores/orchestrate.hpp"

namespace pto {

class Engine;

inline constexpr std::chrono::milliseconds kGrace{50};
inline constexpr int kAbandonedRunsMax = 8;

// Those of this process that have not returned yet.
int abandoned_runs();

// The run goes on, and what it may touch is kept.
class AbandonedRun : public Error {
 public:
  using Error::Error;
};

// What the caller's thread is asked and told while it waits; both may be empty.
struct WaitingCaller {
  std::function<bool()> wants_out;                      // true: as if the deadline had passed
  std::function<void(const std::string&)> has_to_wait;  // once, with the reason
};

// As run_orchestration, with options.deadline_s > 0. `kept` owns all that is passed here. Throws
// AbandonedRun too: then a reference to it is held for ever.
RunReport run_contained(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
                        const Numbers& scalars, const RunOptions& options,
                        const std::shared_ptr<void>& kept, const WaitingCaller& caller);

// What a run is doing now, between its threads and the one that waits for it.
class RunWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Running {
    TaskId task = 0;  // 0: none
    const char* kernel = "";
    const char* file = "";
    int32_t line = 0;
  };

  explicit RunWatch(double deadline_s);

  // --- the engine ---
  void attach(Engine& engine, size_t workers);
  void detach();
  void begin(int worker, const Running& running) { set(worker, running); }
  void end(int worker) { set(worker, {}); }

  // --- the thread that drives the run ---
  void drive(const std::function<RunReport(RunWatch&)>& run) noexcept;
  void orchestrate(const std::function<void()>& orchestration);
  bool is_late() const { return is_stopped_.load() || Clock::now() > deadline_; }

  // --- the thread that waits ---
  bool wait_until(Clock::time_point time);  // whether it has ended
  RunReport result();                       // of a run that has ended; throws what it threw
  void stop(const std::string& why);        // the deadline passes now
  Clock::time_point deadline() const { return deadline_; }
  enum class Verdict { WillEnd, MustWait, Abandoned };
  Verdict abandon();            // where user code runs, and others may still be abandoned
  std::string hanging() const;  // what has not returned, as of the last abandon()

 private:
  struct alignas(64) Worker {
    std::mutex mutex;
    Running running;
  };
  void set(int worker, const Running& running);
  std::string running_code();

  const Clock::time_point deadline_;
  std::atomic<bool> is_stopped_{false}, is_orchestrating_{false};
  AbandonablePool pool_;
  std::unique_ptr<Worker[]> workers_;
  size_t n_workers_ = 0;

  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  Engine* engine_ = nullptr;
  bool has_ended_ = false, is_abandoned_ = false;
  std::string hanging_;
  RunReport report_;
  std::exception_ptr error_;
};

}  // namespace pto
