// SPDX-License-Identifier: Apache-2.0
// Engine: the state of one run, shared by the submitting thread (submit.cpp) and the workers
// (execute.cpp).
//
//     Engine engine(options, orchestrate);      // as run_tasks() in engine.hpp does
//     RunReport report = engine.run();
//
// Tasks live in a ring of slots: a finished task's slot goes to a later task, so the ring is the
// window of tasks in flight. Each worker has a deque of ready tasks. A lone worker runs each task
// as it is submitted, since all its predecessors are done.
// Invariant: a worker finishes with a task before it closes the task's list of successors.
// Thread safety: the sections of the class name their threads.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "pto/base/clock.hpp"
#include "pto/launch/block.hpp"
#include "pto/tasks/book/failures.hpp"
#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/cores/abandon.hpp"
#include "pto/tasks/cores/deque.hpp"
#include "pto/tasks/cores/engine.hpp"
#include "pto/tasks/cores/steps.hpp"

namespace pto {

// Admits one task at a time of those that reduce into one box; the others queue.
class ReduceTurn {
 public:
  int64_t number = 0;  // in the order of creation, from 1

  bool take(Task* task) {  // false: pass_on() hands it the turn later
    const std::lock_guard lock(mutex_);
    if (!is_taken_) return is_taken_ = true;
    task->next_waiting = nullptr;
    (first_ == nullptr ? first_ : last_->next_waiting) = task;
    last_ = task;
    return false;
  }
  Task* pass_on() {  // the task that has the turn now, or null
    const std::lock_guard lock(mutex_);
    Task* const next = first_;
    is_taken_ = next != nullptr;
    if (is_taken_) first_ = next->next_waiting;
    return next;
  }

 private:
  std::mutex mutex_;
  bool is_taken_ = false;
  Task *first_ = nullptr, *last_ = nullptr;  // of the queue
};

struct Allocation {
  char* data;
  int64_t bytes;
  bool is_owned;
  std::atomic<int64_t> users{1};  // the orchestration, and each task in flight
  std::atomic<bool> is_dead{false};
  MemoryRecord record{};  // of owned memory in a traced run
  History history;
  std::map<int64_t, ReduceTurn> turns;  // by the box's number

  ~Allocation() { free(); }
  void free() {
    if (is_owned) pto_free(std::exchange(data, nullptr));
  }
};

// Takes over the memory if is_owned, also when it throws.
Allocation& add_allocation(std::vector<std::unique_ptr<Allocation>>& allocations, char* data,
                           int64_t bytes, bool is_owned);
// Does one call of TaskRun::adopt().
std::vector<Allocation*> adopt_pieces(std::span<const MemoryPiece> pieces,
                                      std::vector<std::unique_ptr<Allocation>>& allocations);

inline Box box_of(const TaskTensor& tensor) { return box_of(tensor.view, tensor.allocation->data); }

// Throws Error for a task that cannot be the one after `last`.
void check_submission(const TaskSpec& spec, TaskId last);

struct alignas(64) TaskWorker {
  explicit TaskWorker(int64_t capacity) : ready(capacity) {}
  ReadyDeque<Task> ready;
  std::optional<Launch> launch;  // of the thread that works here
  int index = 0;
  int patience = 0;           // visits to other deques that it has put off
  uint64_t ticks_a_task = 0;  // a moving average
  uint32_t random = 1;
  TraceRing trace;
  uint64_t last_ticks = 0;  // the end of its last task, if the next follows at once
};

// The slots and workers of a run. A later run of the same sizes takes them over: making them costs
// more than a small run.
struct RunSlots {
  RunSlots(int64_t window, int workers, int64_t ready_places);

  static std::unique_ptr<RunSlots> take(int64_t window, int workers);
  static void give_back(std::unique_ptr<RunSlots> slots);  // every task in them is done

  const int64_t window;
  const std::unique_ptr<Task[]> tasks;
  std::vector<std::unique_ptr<TaskWorker>> workers;
};

class Engine final : public TaskRun {
 public:
  Engine(const RunOptions& options, const std::function<void(TaskRun&)>& orchestrate);
  ~Engine() override {
    if (watch_ != nullptr) watch_->detach();
    if (steps_ == nullptr) RunSlots::give_back(std::move(held_));
  }

  RunReport run();

  // Starts nothing new; workers leave when their tasks return, and the orchestrating thread does
  // the rest. Any thread.
  void abandon() {
    is_stopped_.store(true);
    is_over_.store(true, std::memory_order_seq_cst);
    wake();
  }

  static constexpr int kSpins = 500;  // looks for work before a worker sleeps
  static constexpr int kPauses = 8;   // between two of them

  std::vector<Allocation*> adopt(std::span<const MemoryPiece> pieces) override;
  Allocation& allocate(int64_t bytes) override;
  void let_go(Allocation& allocation) override { release(allocation, *submitter_); }
  TaskId submit(const TaskSpec& spec) override;
  bool wait_for(const TaskTensor& tensor) override;
  void stop(const std::string& text) override;
  bool has_failed() const override { return has_failed_.load() || is_stopped_.load(); }

 private:
  // --- the orchestrating thread ---
  void refuse_known_memory(const Allocation& added) const;
  void orchestrate();
  Task& claim_slot();
  void retire();
  struct Kept {  // counts of what a task keeps besides tensors and scalars
    int32_t holds = 0, turns = 0, dims = 0, predicates = 0;
    size_t bytes() const {
      return 8 * size_t(holds + turns + dims) + sizeof(Predicate) * size_t(predicates);
    }
  };
  static Kept kept_of(const TaskSpec& spec);
  void fill(Task& task, const TaskSpec& spec);
  void keep(Task& task, const TaskSpec& spec, const Kept& kept);
  void enter(Task& task, const TaskSpec& spec);
  void release(Task& task);
  void give_up(Task& task);
  void run_at_once(Task& task);
  bool is_done(TaskId id);
  void follow(Task& task, TaskId earlier);
  void follow_tensor(Task& task, const TaskTensor& tensor);
  void drop_dead_allocations();
  void begin_trace();
  bool traces(TraceLevel level) const { return trace_level_ >= level; }
  void name_for_trace(Task& task, const TaskSpec& spec);
  void note_allocation(Allocation& made);
  void note_first_task(const Task& task, const TaskSpec& spec);
  void note_submission(uint64_t start, uint64_t claimed);
  void note_run(uint64_t start);
  void note_wait(const std::vector<TaskId>& writers, uint64_t start);
  void end_trace();
  void help_until(const Task& task);
  void finish_all();

  // --- all workers ---
  void work(int worker);
  void work_until_end(TaskWorker& self);
  Task* find(TaskWorker& self);
  bool is_worth_a_visit(TaskWorker& self, const TaskWorker& other);
  void run_chain(TaskWorker& self, Task* task);
  int run_tasks_from(TaskWorker& self, Task* task);
  void judge(TaskWorker& self, uint64_t ticks, int tasks);
  void run_here(Task& task);
  bool run_blocks(TaskWorker& self, Task& task);
  int32_t call(TaskWorker& self, Task& task, int32_t block);
  int32_t call_watched(TaskWorker& self, Task& task, int32_t block);
  int32_t call_kernel(TaskWorker& self, Task& task, int32_t block);
  int32_t call_noted(TaskWorker& self, Task& task, int32_t block);
  void add_record(TaskWorker& self, const Task& task, uint64_t start);
  void note_free(TaskWorker& self, Allocation& allocation);
  Task* complete(TaskWorker& self, Task& task);
  void make_ready(TaskWorker& self, Task* task, Task** next);
  void settle_condition(Task& task);
  bool take_turns(Task& task);
  void put(TaskWorker& self, Task* task);
  // Returns the number of deque entries of a task, so that several workers can share its blocks.
  int32_t entries_of(const Task& task) const {
    return std::min<int32_t>(task.blocks, int32_t(workers_.size()));
  }
  // Says whether no further block of the task may run.
  bool is_lost(const Task& task) const {
    return task.cause.load(std::memory_order_acquire) >= 0 ||
           is_stopped_.load(std::memory_order_relaxed);
  }
  void note_failure(TaskWorker& self, Task& task, const char* text);
  void poison(const Task& task, int32_t cause);
  void release(Allocation& allocation, TaskWorker& self) {
    if (allocation.users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    if (traces(kRecords)) note_free(self, allocation);
    allocation.free();
    dead_.fetch_add(1, std::memory_order_relaxed);
    allocation.is_dead.store(true, std::memory_order_release);  // nothing here reads it afterwards
  }
  void wake() {
    if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
    events_.fetch_add(1, std::memory_order_seq_cst);
    if (steps_ != nullptr) return steps_->wake(events_);
    events_.notify_all();
  }
  // Lets other workers go first if the run is simulated.
  void at(Step step, Task* task = nullptr) {
    if (steps_ != nullptr) [[unlikely]]
      steps_->at(step, task);
  }
  uint64_t ticks() const { return steps_ == nullptr ? read_ticks() : steps_->now_ns(); }
  double tick_ns() const { return steps_ == nullptr ? ns_of_a_tick() : 1; }
  bool is_late() const;
  static constexpr int64_t kMany = 16;
  static constexpr int kPatience = 64;
  template <class Condition>
  void rest_unless(Condition something_to_do);

  Task& slot(TaskId id) { return slots_[size_t(id) & size_t(window_ - 1)]; }
  bool is_alone() const { return is_alone_; }

  const std::function<void(TaskRun&)>& orchestrate_;
  std::unique_ptr<RunSlots> held_;
  const int64_t window_;
  Task* const slots_;
  const std::vector<std::unique_ptr<TaskWorker>>& workers_;
  TaskWorker* submitter_ = nullptr;
  TaskId last_ = 0;           // the last submitted task
  TaskId retired_ = 0;        // this and all before it are done, and none has failed
  uint64_t ran_until_ = 0;    // the end, in ticks, of the last task that run_here() ran
  bool is_in_doubt_ = false;  // the next such task is measured
  std::vector<std::unique_ptr<Allocation>> allocations_;
  RunReport report_;
  RunTrace* const trace_;       // null: none
  const int trace_level_;       // -1: none
  Steps* const steps_;          // null: on threads
  RunWatch* const watch_;       // null: none
  const bool is_watched_;       // any of them
  const bool is_alone_;         // one worker; a simulated one takes every step all the same
  const uint64_t short_ticks_;  // tasks below it, some 0.4 us, are short
  int64_t turns_made_ = 0;
  uint64_t trace_start_ = 0;
  uint64_t allocated_ = 0;             // allocations of a traced run
  EdgeCause cause_ = EdgeCause::Data;  // of the edges that are being added
  TraceSubmission submission_{};       // of the task that is being submitted
  TraceNames<const TaskKernel*> traced_kernels_;
  TraceNames<std::pair<const char*, int32_t>> traced_sites_;
  const TaskKernel* named_kernel_ = nullptr;  // the last task's; its number and site follow
  uint16_t named_kernel_number_ = 0;
  std::pair<const char*, int32_t> named_line_{nullptr, 0};
  uint32_t named_site_ = 0;
  std::exception_ptr error_;
  int64_t deadline_ns_ = 0;
  double deadline_s_ = 0;

  // Two cache lines: flags that all read and few write, then counters.
  alignas(64) std::atomic<bool> is_over_{false};
  std::atomic<bool> is_stopped_{false}, has_failed_{false};
  std::atomic<bool> are_short_{false};  // tasks: passing one on costs more than running it
  std::atomic<int32_t> sleepers_{0};
  std::atomic<uint32_t> events_{0};
  alignas(64) std::atomic<int64_t> dead_{0};
  std::atomic<int64_t> skipped_{0};

  std::mutex failures_mutex_;
  Failures failures_;
  std::string stopped_;
};

// Spins, then sleeps until a task is queued or done. A worker that sees no sleeper need not wake
// one: a sleeper looks once more after it has registered.
template <class Condition>
void Engine::rest_unless(Condition something_to_do) {
  const auto is_ready = [&] {
    if (something_to_do()) return true;
    for (const auto& worker : workers_)
      if (worker->ready.size() > 0) return true;
    return false;
  };
  for (int i = 0; i < kSpins; ++i) {
    if (is_ready()) return;
    if (steps_ != nullptr) break;
    // Each look takes the cache line of the owner's deque away from it.
    for (int k = 0; k < kPauses; ++k) pause_core();
  }
  at(Step::Rest);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  at(Step::Rest);
  const uint32_t seen = events_.load(std::memory_order_seq_cst);
  at(Step::Rest);
  if (!is_ready()) {
    if (steps_ != nullptr)
      steps_->sleep(events_, seen);
    else
      events_.wait(seen, std::memory_order_seq_cst);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace pto
