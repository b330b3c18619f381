// SPDX-License-Identifier: Apache-2.0
// HostEngine::State: what the submitting thread (host_engine.cpp), the attendant thread, which
// wakes for answers, deaths and deadlines (attendant.cpp), and the workers' queues
// (host_worker.cpp) share.
//
// A task waits until each predecessor is done or stands before it in the queue of its only worker.
// Then it enters the queues of all its workers under one lock, so that two groups never queue in
// different orders. A queue feeds its worker's mailbox as there is room. Any thread that holds the
// lock takes the workers' answers.
// Invariant: a task is answered once by each of its parts.
// Thread safety: `mutex_` guards everything, except members that say otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/processes/child_process.hpp"
#include "pto/tasks/processes/host_engine.hpp"
#include "pto/tasks/processes/mailbox.hpp"

namespace pto {

struct HostTask;

// A worker: its current process, and a count of those that died before.
struct HostWorker {
  int device = 0;  // an index in HostOptions::devices
  bool is_python = false;
  std::unique_ptr<Mailbox> mailbox;        // null: no process
  std::atomic<Mailbox*> visible{nullptr};  // the same, read without the lock
  std::unique_ptr<ChildProcess> process;
  std::set<uint32_t> loaded;    // programs
  std::deque<HostTask*> queue;  // not sent yet
  std::deque<HostTask*> sent;   // sent, not answered; in order
  int64_t starts = 0;
  int early_ends = 0;      // processes in a row that ended before they were ready
  std::string broken;      // why no further process is started
  uint64_t kill_task = 0;  // must end by kill_at_ns, else the process is killed
  uint64_t kill_at_ns = 0;
  std::string kill_reason;

  bool is_running() const { return process != nullptr; }
};

struct HostTask {
  enum class Stage { Free, Waiting, Queued, Done };
  struct Successor {
    HostTask* task;
    TaskId id;
    bool is_released;  // the successor stands behind it in a queue
  };

  TaskId id = 0;
  Stage stage = Stage::Free;
  uint32_t program = 0;
  std::string name, site;
  int32_t pending = 0;  // unfinished predecessors, plus one during submission
  int32_t cause = -1;   // index of the failure that keeps it from running
  std::vector<Successor> successors;
  std::vector<TaskId> follows;  // predecessors in its worker's queue
  std::vector<std::shared_ptr<SharedBlock>> holds;
  struct Part {
    HostWorker* worker;
    std::string message;  // without `follows`
    bool is_answered = false;
  };
  std::vector<Part> parts;
  int32_t parts_left = 0;
  int32_t deaths = 0;  // of processes whose next task it was
  std::optional<Predicate> gate;
  uint64_t ready_ns = 0;
  uint16_t kernel_number = 0;
  uint32_t site_number = 0;
};

struct HostEngine::State {
  using Lock = std::unique_lock<std::mutex>;

  explicit State(const HostOptions& options);
  ~State();

  // --- workers (host_worker.cpp) ---
  void start_process(HostWorker& worker);
  void await_ready();
  HostWorker& worker_for(int device, bool is_python);
  void pump(HostWorker& worker);                  // from its queue to its mailbox
  bool send(HostWorker& worker, HostTask& task);  // false: no room
  bool load(HostWorker& worker, uint32_t program);
  void handle_end(HostWorker& worker);
  void fail_queue_of_broken(HostWorker& worker);

  // --- answers (attendant.cpp) ---
  void take_answers();
  void take_answer(HostWorker& worker, std::span<const char> record);
  void note_record(const HostWorker& worker, const HostTask& task, const Answer& answer);
  void finish_part(HostTask& task, HostWorker& worker);
  void finish(HostTask& task);
  void release_successors(HostTask& task);
  void fail_task(HostTask& task, const HostWorker* worker, std::string text, int signal);
  void hurry_members(HostTask& task);
  void look_at_gates();
  bool has_answers() const;  // without the lock
  // True if a thread or a task waits for answers, or if a gate is open.
  bool awaits_answers() const { return waiters_ > 0 || waiting_tasks_ > 0 || !gates_.empty(); }
  bool awaits_room() const;
  void want_bells();
  void attend();
  int timeout_ms();
  void keep_time();
  void wake_attendant();
  void stop_run(const std::string& text, bool kills);

  // --- the submitting thread (host_engine.cpp) ---
  HostTask& slot(TaskId id) { return slots_[size_t(id) & (slots_.size() - 1)]; }
  void check(const HostTaskSpec& spec) const;
  HostTask& claim_slot(Lock& lock);
  void give_up(HostTask& task);
  void fill(HostTask& task, const HostTaskSpec& spec);
  void follow(HostTask& task, TaskId earlier, EdgeCause cause);
  void follow_tensor(HostTask& task, const HostTensor& tensor);
  // Says whether no task needs to follow this one any more.
  bool is_settled(TaskId id) {
    if (id < first_) return true;
    const HostTask& task = slot(id);
    return (task.id != id || task.stage == HostTask::Stage::Done) && has_succeeded(id);
  }
  void enqueue(HostTask& task);
  static constexpr uint64_t kForever_ns = 1ull << 62;
  template <class Condition>
  bool drive_until(Lock& lock, const Condition& condition, uint64_t until_ns = kForever_ns);
  bool has_succeeded(TaskId id) const { return causes_.count(id) == 0; }
  void begin_trace();
  void name_for_trace(HostTask& task);
  bool traces(TraceLevel level) const { return trace_ != nullptr && trace_->level >= level; }
  void note_submission(const HostTask& task, uint64_t start_ns);
  void end_trace();
  [[noreturn]] void throw_first_failure();

  const HostOptions options_;
  const int process_;  // the process that made it
  const std::shared_ptr<SharedHeap> heap_;
  int bell_ = -1;  // an eventfd: workers and wake_attendant() write to it
  int threads_ = 1, worker_spin_us_ = 0, spin_us_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<HostWorker>> workers_;  // native ones, then Python's, by device
  bool is_closing_ = false;
  std::thread attendant_;

  struct Program {
    std::shared_ptr<SharedBlock> image;
    int64_t bytes;
    bool is_python;
  };
  std::map<uint32_t, Program> programs_;
  uint32_t last_program_ = 0;

  // The current run.
  bool is_running_ = false;
  std::vector<HostTask> slots_;
  TaskId last_ = 0, first_ = 1;  // last submitted, over all runs; first of this run
  uint64_t run_ = 0;
  HostReport report_;
  struct Memory {
    std::shared_ptr<SharedBlock> block;
    History history;
  };
  std::unordered_map<const SharedBlock*, std::unique_ptr<Memory>> memory_;
  std::vector<HostFailure> failures_;
  std::unordered_map<TaskId, int32_t> causes_;  // task -> index of the failure that stopped it
  bool is_stopped_ = false;
  uint64_t deadline_ns_ = 0;
  double deadline_s_ = 0;
  int64_t waiting_tasks_ = 0, queued_tasks_ = 0, unfinished_ = 0;
  int waiters_ = 0;
  std::vector<HostTask*> finished_;  // successors still to be released
  bool is_releasing_ = false;
  std::vector<std::unique_ptr<Mailbox>> retired_;  // of dead workers; readers may still use them
  std::vector<HostTask*> gates_;                   // gates whose predecessors are done
  bool is_ending_ = false;                         // no further task comes
  RunTrace* trace_ = nullptr;
  uint64_t trace_start_ns_ = 0;
  std::map<std::string, uint16_t> traced_kernels_;
  std::map<std::string, uint32_t> traced_sites_;
};

}  // namespace pto
