// SPDX-License-Identifier: Apache-2.0
// Contained runs: a run returns to its caller soon after its deadline, even if a kernel or the
// orchestration never returns. The process then keeps for ever what the run's threads hold.
//
//     auto kept = std::make_shared<Everything>(...);      // code, arrays, arguments
//     run_contained(kept->program, kept->tensors, kept->scalars, {.deadline_s = 0.1}, kept, {});
//
// A thread of its own drives the run while the caller waits. After the deadline no task begins and
// nothing is submitted. If user code has not returned kGrace later, the run's threads are
// abandoned: the process gets another pool, the caller gets an error, and an abandoned thread ends
// quietly if its code returns after all.
// Invariant: at most kAbandonedRunsMax runs are abandoned at a time; the caller waits for a further
// one.
// Thread safety: run_contained() from any thread; the sections of RunWatch name their threads.
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

// Returns the number of abandoned runs of this process whose code has not returned yet.
int abandoned_runs();

// Thrown if the run goes on without its caller; what it may touch is kept alive.
class AbandonedRun : public Error {
 public:
  using Error::Error;
};

// Questions and messages for the caller's thread while it waits; both may be empty.
struct WaitingCaller {
  std::function<bool()> wants_out;                      // true: as if the deadline had passed
  std::function<void(const std::string&)> has_to_wait;  // once, with the reason
};

// Works as run_orchestration() with options.deadline_s > 0. `kept` owns all arguments. Throws
// AbandonedRun too; then `kept` is held for ever.
RunReport run_contained(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
                        const Numbers& scalars, const RunOptions& options,
                        const std::shared_ptr<void>& kept, const WaitingCaller& caller);

// RunWatch: what a run is doing now, shared by its threads and the thread that waits for it.
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
  bool wait_until(Clock::time_point time);  // true if it has ended
  RunReport result();                       // of an ended run; rethrows its error
  void stop(const std::string& why);        // acts as if the deadline passed now
  Clock::time_point deadline() const { return deadline_; }
  enum class Verdict { WillEnd, MustWait, Abandoned };
  Verdict abandon();            // only if user code runs and the limit allows it
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

  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  Engine* engine_ = nullptr;
  bool has_ended_ = false, is_abandoned_ = false;
  std::string hanging_;
  RunReport report_;
  std::exception_ptr error_;
};

}  // namespace pto
