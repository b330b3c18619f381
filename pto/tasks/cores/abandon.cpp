// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/cores/abandon.hpp"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "pto/base/blocked_signals.hpp"
#include "pto/tasks/cores/run_state.hpp"

namespace pto {
namespace {

// How often the waiting thread asks whether its caller wants out and, once it must wait, whether it
// still must.
constexpr std::chrono::milliseconds kLook{20};
constexpr double kDeadlineMost_s = 1e9;

std::atomic<int> g_abandoned{0};

void forget_runs_in_child() { g_abandoned.store(0); }  // their threads stay in the parent
[[maybe_unused]] const int kForkHandler = pthread_atfork(nullptr, nullptr, forget_runs_in_child);

bool count_one_more() {
  int count = g_abandoned.load();
  while (count < kAbandonedRunsMax)
    if (g_abandoned.compare_exchange_weak(count, count + 1)) return true;
  return false;
}

// Leaks on purpose: code that has not returned may touch it until the process ends.
void keep_for_ever(const std::shared_ptr<void>& kept) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  all.push_back(kept);
}

// Throws in an orchestration that submits past the deadline.
class BoundedRun final : public TaskRun {
 public:
  BoundedRun(TaskRun& run, const RunWatch& watch) : run_(run), watch_(watch) {}

  std::vector<Allocation*> adopt(std::span<const MemoryPiece> pieces) override {
    return run_.adopt(pieces);
  }
  Allocation& allocate(int64_t bytes) override { return run_.allocate(bytes); }
  void let_go(Allocation& allocation) override { run_.let_go(allocation); }
  TaskId submit(const TaskSpec& spec) override {
    if (watch_.is_late())
      fail({"the run's deadline had passed when a task was submitted",
            "no task begins after the deadline", "pass a longer deadline, or submit fewer tasks"},
           ErrorKind::Runtime);
    return run_.submit(spec);
  }
  bool wait_for(const TaskTensor& tensor) override { return run_.wait_for(tensor); }
  void stop(const std::string& text) override { run_.stop(text); }
  bool has_failed() const override { return run_.has_failed(); }

 private:
  TaskRun& run_;
  const RunWatch& watch_;
};

std::thread start_driver(std::function<void()> drive) {
  try {
    const BlockedSignals blocked;
    std::thread thread(std::move(drive));
    pthread_setname_np(thread.native_handle(), "pto-run");
    return thread;
  } catch (const std::system_error& error) {
    fail({std::string("no thread for a run with a deadline: ") + error.what(),
          "such a run has one of its own, so that its caller can leave it",
          "run it without a deadline, or end other threads"},
         ErrorKind::Runtime);
  }
}

RunWatch::Clock::duration seconds(double count) {
  return std::chrono::duration_cast<RunWatch::Clock::duration>(
      std::chrono::duration<double>(std::min(count, kDeadlineMost_s)));
}

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%g", value);
  return text;
}

[[noreturn]] void throw_abandoned(const std::string& when, const std::string& hanging) {
  throw AbandonedRun(
      {when + ", and " + hanging + " has not returned",
       "it goes on in an abandoned thread and may still write to the run's arrays, which are kept "
       "until the process ends",
       "mend it, or run it at level host, which ends such a worker; the runtime can be used again"},
      ErrorKind::Runtime);
}

// Joins the run's thread, or detaches it and throws.
void wait_or_abandon(RunWatch& watch, std::thread& thread, const std::shared_ptr<void>& kept,
                     const WaitingCaller& caller, double deadline_s) {
  auto give_up = watch.deadline() + kGrace;
  std::string when = "the deadline of " + number(deadline_s) + " s has passed";
  bool is_out = false, is_told = false;
  for (;;) {
    const auto now = RunWatch::Clock::now();
    const auto look = now + kLook;
    if (watch.wait_until(now < give_up ? std::min(look, give_up) : look)) return thread.join();
    if (!is_out && caller.wants_out && caller.wants_out()) {
      is_out = true;
      when = "the run was interrupted";
      watch.stop(when);
      give_up = std::min(give_up, RunWatch::Clock::now() + kGrace);
    }
    if (RunWatch::Clock::now() < give_up) continue;
    const RunWatch::Verdict verdict = watch.abandon();
    if (verdict == RunWatch::Verdict::Abandoned) {
      keep_for_ever(kept);
      thread.detach();
      throw_abandoned(when, watch.hanging());
    }
    if (verdict == RunWatch::Verdict::MustWait && !std::exchange(is_told, true) &&
        caller.has_to_wait)
      caller.has_to_wait(
          when + ", but " + watch.hanging() +
          " has not returned and is waited for: " + std::to_string(kAbandonedRunsMax) +
          " abandoned runs of this process have not returned either");
  }
}

}  // namespace

int abandoned_runs() { return g_abandoned.load(); }

RunWatch::RunWatch(double deadline_s) : deadline_(Clock::now() + seconds(deadline_s)) {}

void RunWatch::attach(Engine& engine, size_t workers) {
  const std::lock_guard lock(mutex_);
  workers_ = std::make_unique<Worker[]>(workers);
  n_workers_ = workers;
  engine_ = &engine;
}

void RunWatch::detach() {
  const std::lock_guard lock(mutex_);
  engine_ = nullptr;
}

void RunWatch::set(int worker, const Running& running) {
  Worker& one = workers_[size_t(worker)];
  const std::lock_guard lock(one.mutex);
  one.running = running;
}

void RunWatch::drive(const std::function<RunReport(RunWatch&)>& run) noexcept {
  const ScopedExecutor executor(AbandonablePool::parallel_for, &pool_);
  RunReport report;
  std::exception_ptr error;
  try {
    report = run(*this);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  report_ = report;
  error_ = std::move(error);
  has_ended_ = true;
  if (is_abandoned_) g_abandoned.fetch_sub(1);
  ended_.notify_all();
}

void RunWatch::orchestrate(const std::function<void()>& orchestration) {
  struct Scope {
    std::atomic<bool>& flag;
    explicit Scope(std::atomic<bool>& of) : flag(of) { flag.store(true); }
    ~Scope() { flag.store(false); }
  };
  const Scope scope(is_orchestrating_);
  orchestration();
}

bool RunWatch::wait_until(Clock::time_point time) {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, time, [this] { return has_ended_; });
}

RunReport RunWatch::result() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return report_;
}

void RunWatch::stop(const std::string& why) {
  const std::lock_guard lock(mutex_);
  is_stopped_.store(true);
  if (engine_ != nullptr) engine_->stop(why);
}

// Names the orchestration only if no kernel runs: else it may just wait for one.
std::string RunWatch::running_code() {
  std::string names;
  for (size_t i = 0; i < n_workers_; ++i) {
    const std::lock_guard lock(workers_[i].mutex);
    const Running& one = workers_[i].running;
    if (one.task == 0) continue;
    names += (names.empty() ? "" : " and ") + std::string("kernel ") + one.kernel + " (task " +
             std::to_string(one.task) +
             (one.file[0] == 0
                  ? ""
                  : std::string(", submitted at ") + one.file + ":" + std::to_string(one.line)) +
             ", on worker " + std::to_string(i) + ")";
  }
  return names.empty() && is_orchestrating_.load() ? "the orchestration" : names;
}

RunWatch::Verdict RunWatch::abandon() {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return Verdict::WillEnd;
  hanging_ = running_code();
  if (hanging_.empty()) return Verdict::WillEnd;
  if (!count_one_more()) return Verdict::MustWait;
  is_abandoned_ = true;
  if (engine_ != nullptr) engine_->abandon();
  pool_.abandon();
  return Verdict::Abandoned;
}

std::string RunWatch::hanging() const { return hanging_; }

RunReport run_contained(const OrchestrationProgram& program, std::span<const pto_tensor> tensors,
                        const Numbers& scalars, const RunOptions& options,
                        const std::shared_ptr<void>& kept, const WaitingCaller& caller) {
  PTO_ASSERT(options.deadline_s > 0 && options.steps == nullptr);
  const auto watch = std::make_shared<RunWatch>(options.deadline_s);
  RunOptions own = options;
  own.deadline_s = std::min(options.deadline_s, kDeadlineMost_s);
  own.watch = watch.get();
  std::thread thread =
      start_driver([watch, &program, tensors, scalars, own, threads = num_threads()] {
        const ScopedThreadLimit limit(threads);
        watch->drive([&](RunWatch& of) {
          return run_tasks(own, [&](TaskRun& run) {
            BoundedRun bounded(run, of);
            of.orchestrate([&] { orchestrate_into(bounded, program, tensors, scalars); });
          });
        });
      });
  wait_or_abandon(*watch, thread, kept, caller, options.deadline_s);
  return watch->result();
}

}  // namespace pto
