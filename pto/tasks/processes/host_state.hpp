// SPDX-License-Identifier: Apache-2.0
// HostEngine::State: the data that the submitting thread (host_engine.cpp), the attendant thread,
// which wakes for answers, deaths and deadlines (attendant.cpp), and the workers' queues
// (host_worker.cpp) share.
//
// The book (book/task_book.hpp) decides; the state tells it what has happened and does what it
// says. Any thread that holds the lock takes the workers' answers.
// Thread safety: `mutex_` guards everything, except members that say otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "pto/tasks/book/task_book.hpp"
#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/processes/child_process.hpp"
#include "pto/tasks/processes/host_engine.hpp"
#include "pto/tasks/processes/mailbox.hpp"

namespace pto {

// A worker's current process.
struct HostWorker {
  int device = 0;  // an index in HostOptions::devices
  bool is_python = false;
  std::unique_ptr<Mailbox> mailbox;        // null: no process
  std::atomic<Mailbox*> visible{nullptr};  // the same, read without the lock
  std::unique_ptr<ChildProcess> process;
  std::set<uint32_t> loaded;  // programs
  int64_t starts = 0;

  bool is_running() const { return process != nullptr; }
};

// Holds the rest of a task: its messages and what it keeps alive.
struct HostTask {
  uint32_t program = 0;
  std::vector<std::string> messages;  // of each part, without `follows`
  std::vector<std::shared_ptr<SharedBlock>> holds;
  std::optional<Predicate> gate;
  uint16_t kernel_number = 0;
  uint32_t site_number = 0;
};

struct HostEngine::State final : BookDriver {
  using Lock = std::unique_lock<std::mutex>;

  explicit State(const HostOptions& options);
  ~State() override;

  // --- what the book decides (host_worker.cpp) ---
  uint64_t now_ns() override;
  bool send(int worker, const BookTask& task) override;
  void has_sent(int worker) override;
  TaskId current_task(int worker) override;
  void refuse_until(int worker, TaskId last) override;
  void kill(int worker) override;
  std::string start(int worker) override;
  bool holds(const BookTask& gate) override;
  void has_ended(const BookTask& task) override;
  void look_at_time() override;

  // --- workers (host_worker.cpp) ---
  void start_process(HostWorker& worker);
  void await_ready();
  int number_of(int device, bool is_python) const {
    return device + (is_python ? int(options_.devices.size()) : 0);
  }
  void start_if_ended(int worker);
  bool load(HostWorker& worker, uint32_t program);
  void handle_end(int worker);

  // --- answers (attendant.cpp) ---
  void take_answers();
  void take_answer(int worker, std::span<const char> record);
  void note_record(const HostWorker& worker, const BookTask& task, const Answer& answer);
  bool has_answers() const;  // without the lock
  // True if a thread or a task waits for answers, or a gate for its predicate.
  bool awaits_answers() const { return waiters_ > 0 || book_.awaits_answers(); }
  void want_bells();
  void attend();
  int timeout_ms();

  // --- the submitting thread (host_engine.cpp) ---
  HostTask& of(const BookTask& task) { return tasks_[book_.place_of(task.id)]; }
  void check(const HostTaskSpec& spec) const;
  void prepare(HostTask& own, const HostTaskSpec& spec);
  void enter(BookTask& task, HostTask& own, const HostTaskSpec& spec);
  void follow(BookTask& task, TaskId earlier, EdgeCause cause);
  void follow_tensor(BookTask& task, const HostTensor& tensor);
  static constexpr uint64_t kForever_ns = 1ull << 62;
  template <class Condition>
  bool drive_until(Lock& lock, const Condition& condition, uint64_t until_ns = kForever_ns);
  void begin_trace();
  void name_for_trace(const BookTask& task);
  bool traces(TraceLevel level) const { return trace_ != nullptr && trace_->level >= level; }
  void note_submission(const BookTask& task, uint64_t start_ns);
  void end_trace();
  void throw_first_failure() const { throw HostError(book_.failures().first()); }

  const HostOptions options_;
  const std::shared_ptr<SharedHeap> heap_;
  int bell_ = -1;  // an eventfd: workers and look_at_time() write to it
  int threads_ = 1, worker_spin_us_ = 0, spin_us_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<HostWorker>> workers_;  // native ones, then Python's, by device
  TaskBook book_;                                     // its workers are these
  bool is_closing_ = false;
  std::thread attendant_;

  struct SharedProgram {
    std::shared_ptr<SharedBlock> image;
    int64_t bytes;
    bool is_python;
  };
  std::map<uint32_t, SharedProgram> programs_;
  uint32_t last_program_ = 0;

  // The current run.
  std::vector<HostTask> tasks_;  // by their slots
  uint64_t run_ = 0;
  struct Memory {
    std::shared_ptr<SharedBlock> block;
    History history;
    TaskId traced = 0;  // the first task that used it in the last traced run
  };
  std::unordered_map<const SharedBlock*, std::unique_ptr<Memory>> memory_;
  int waiters_ = 0;
  std::vector<std::unique_ptr<Mailbox>> retired_;  // of dead workers; readers may still use them
  RunTrace* trace_ = nullptr;
  uint64_t trace_start_ns_ = 0;
  TraceNames<std::string> traced_kernels_, traced_sites_;
};

}  // namespace pto
