// SPDX-License-Identifier: Apache-2.0
// TaskBook: decides for tasks that run on workers which may be lost: when a task is sent, what its
// end releases, what the death of a worker means.
//
//     TaskBook book(driver, {{"device 0"}, {"device 1"}});
//     book.begin_run(4096, 0, false);
//     if (book.has_room()) {                               // else events free a slot
//       BookTask& task = book.open("scale", "main.cpp:7");
//       task.parts.push_back({0});                         // runs on worker 0
//       book.follow(task, 1);                              // after task 1
//       book.release(task);                                // calls driver.send(), now or later
//     }
//     book.take_answer(0, 2, Outcome::Done, "");           // from here on an event a call
//
// The book knows neither threads nor processes nor clocks: its driver tells what has happened, and
// does what BookDriver names. HostEngine drives it with processes, a simulation with virtual ones.
//
// A task waits until each predecessor is done or stands before it in the queue of its only worker.
// Then it enters the queues of all its workers at once, so that two groups never queue in different
// orders. A queue feeds its worker as there is room; a worker takes tasks in order, and skips a
// task if one that it follows there has failed. A task without parts is a gate: it is done when
// the driver says that it holds.
// Invariant: each part of a task ends once. A part that a worker has begun is never sent again.
// Thread safety: none; a driver with several threads locks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "pto/tasks/book/failures.hpp"

namespace pto {

enum class Outcome : uint32_t { Done, Failed, Skipped };

struct BookTask {
  enum class Stage : uint8_t { Free, Waiting, Queued, Done };
  struct Successor {
    BookTask* task;
    bool is_released;  // it stands behind this one in a queue
  };
  struct Part {
    int worker;
    bool has_ended = false;
  };

  TaskId id = 0;
  Stage stage = Stage::Free;
  bool lacks_a_part = false;  // a part has ended and did not do its work: others may wait for it
  std::string name, site;
  int32_t pending = 0;  // unfinished predecessors, plus one during submission
  int32_t cause = -1;   // number of the failure that keeps it from running
  std::vector<Successor> successors;
  std::vector<TaskId> follows;  // predecessors in its worker's queue
  std::vector<Part> parts;
  int32_t parts_left = 0;
  int32_t deaths = 0;  // of processes whose next task it was
  uint64_t ready_ns = 0;

  bool is_gate() const { return parts.empty(); }
};

struct BookWorker {
  std::string name;                  // in errors
  int device = -1;                   // likewise
  bool is_kept = true;               // it is started again also while nothing is queued
  bool is_up = false;                // it can be sent to
  std::deque<BookTask*> queue = {};  // not sent yet
  std::deque<BookTask*> sent = {};   // sent, not answered; in order
  int early_ends = 0;                // lives in a row that ended before the worker was ready
  std::string broken = "";           // why it is not started again
  TaskId kill_task = 0;              // must end by kill_at_ns, else the worker is killed
  uint64_t kill_at_ns = 0;
  bool has_begun_kill_task = false;  // was seen to run it; before that its time does not count
  std::string kill_reason = "";
};

// Describes the end of a worker.
struct WorkerEnd {
  std::string who;  // "its worker process 71"
  std::string how;  // "was killed by signal 11 (SIGSEGV)"
  std::string why;  // ": it touched memory behind all tensors", or ""
  int signal = 0;
  bool was_ready = true;
  TaskId current = 0;  // what it had begun; 0: nothing
};

// Does what the book decides. No function may call the book, except to read.
class BookDriver {
 public:
  virtual ~BookDriver() = default;

  virtual uint64_t now_ns() = 0;
  // Sends the task's part, with the ids that it follows; returns false while there is no room.
  // There is room for one wherever the worker has answered all others.
  virtual bool send(int worker, const BookTask& task) = 0;
  virtual void has_sent(int worker) = 0;                   // after some calls of send()
  virtual TaskId current_task(int worker) = 0;             // what it has begun; 0: nothing
  virtual void refuse_until(int worker, TaskId last) = 0;  // it skips what it has not begun
  virtual void kill(int worker) = 0;                       // worker_ended() follows
  virtual std::string start(int worker) = 0;         // a new life; returns why it cannot, or ""
  virtual bool holds(const BookTask& gate) = 0;      // whether a gate opens
  virtual void has_ended(const BookTask& task) = 0;  // drops what the task holds, wakes who waits
  virtual void look_at_time() = 0;                   // next_time_ns() may be sooner than before
};

class TaskBook {
 public:
  // The most tasks that a worker has been sent and has not answered. After its death the book sends
  // those again that it had not begun.
  static constexpr size_t kSentMost = 256;
  // The time for which a group's part may go on after another has failed: it may wait for that one.
  // It counts from when both were seen: that failure, and the part running.
  static constexpr uint64_t kGroupGrace_ns = 20'000'000;

  TaskBook(BookDriver& driver, std::vector<BookWorker> workers, size_t sent_most = kSentMost)
      : driver_(driver), sent_most_(sent_most), workers_(std::move(workers)), slots_(2) {}
  TaskBook(const TaskBook&) = delete;
  TaskBook& operator=(const TaskBook&) = delete;

  // --- the run ---
  // Throws Error for a window that is no power of two. `is_timed` fills BookTask::ready_ns.
  void begin_run(int64_t window, double deadline_s, bool is_timed);
  void stop(const std::string& text, bool kills);  // nothing more begins
  void begin_end();                                // no further task comes
  void await(TaskId id);  // none comes before this task is done: who submits waits for it
  void end_run();
  bool is_running() const { return is_running_; }
  bool is_stopped() const { return stop_ >= 0; }
  uint64_t deadline_ns() const { return deadline_ns_; }  // 0: none

  // --- submission ---
  bool has_room() const {  // the slot of the next task is free
    const auto stage = slots_[place_of(last_ + 1)].stage;
    return stage == BookTask::Stage::Free || stage == BookTask::Stage::Done;
  }
  BookTask& open(std::string_view name, std::string_view site);
  void follow(BookTask& task, TaskId earlier);
  void release(BookTask& task);  // ends the submission
  void give_up(BookTask& task);  // instead: an error has broken it off
  size_t place_of(TaskId id) const { return size_t(id) & (slots_.size() - 1); }
  size_t window() const { return slots_.size(); }
  TaskId first() const { return first_; }
  TaskId last() const { return last_; }

  // --- events ---
  // Takes the answer to the first task that was sent; kills a worker that answers another.
  void take_answer(int worker, TaskId task, Outcome outcome, const std::string& text);
  void pump(int worker);  // sends what there is room for: after answers
  void worker_started(int worker) { workers_[size_t(worker)].is_up = true; }
  void worker_ended(int worker, const WorkerEnd& end);
  void distrust(int worker);  // kills it: what it answers makes no sense
  void look_at_gates();
  void keep_time();  // kills those whose time is over, and stops a run after its deadline
  uint64_t next_time_ns() const;  // when keep_time() has something to do; UINT64_MAX: never

  // --- questions ---
  const BookWorker& worker(int worker) const { return workers_[size_t(worker)]; }
  const BookTask* task(TaskId id) const {  // null: its slot has gone to a later one
    const BookTask& found = slots_[place_of(id)];
    return found.id == id ? &found : nullptr;
  }
  bool is_done(TaskId id) const {
    const BookTask* const found = task(id);
    return found == nullptr || found->stage == BookTask::Stage::Done;
  }
  bool has_succeeded(TaskId id) const { return failures_.cause_of(id) < 0; }
  // Says whether no task needs to follow this one any more.
  bool is_settled(TaskId id) const { return id < first_ || (is_done(id) && has_succeeded(id)); }
  bool has_gates() const { return !gates_.empty(); }
  bool awaits_answers() const { return waiting_ > 0 || has_gates(); }  // a task does
  bool awaits_room() const;                                            // a queue does
  int64_t unfinished() const { return unfinished_; }
  const Failures& failures() const { return failures_; }
  int64_t tasks() const { return tasks_; }
  int64_t edges() const { return edges_; }
  int64_t replaced_workers() const { return replaced_; }
  bool is_at_rest() const;  // nothing is queued, sent, waiting or counted

 protected:
  BookTask& slot(TaskId id) { return slots_[place_of(id)]; }
  void enqueue(BookTask& task);
  void end_part(BookTask& task, int worker, Outcome outcome);
  void finish(BookTask& task);
  void release_successors(BookTask& task);
  void fail_task(BookTask& task, const BookWorker* worker, std::string text, int signal);
  void hurry(int number);
  void kill(int worker, const std::string& why);
  void start(int worker);

  BookDriver& driver_;
  const size_t sent_most_;
  std::vector<BookWorker> workers_;
  std::vector<BookTask> slots_;
  Failures failures_;

  bool is_running_ = false, is_timed_ = false;
  bool is_ending_ = false;       // no further task comes
  TaskId awaited_ = 0;           // none comes before it is done; 0: that is not known
  int32_t stop_ = -1;            // number of the failure that stopped the run
  TaskId last_ = 0, first_ = 1;  // last submitted, over all runs; first of this run
  uint64_t deadline_ns_ = 0;
  double deadline_s_ = 0;
  int64_t waiting_ = 0, queued_parts_ = 0, unfinished_ = 0;
  int64_t tasks_ = 0, edges_ = 0, replaced_ = 0;
  std::vector<BookTask*> gates_;     // whose predecessors are done
  std::vector<BookTask*> finished_;  // successors still to be released
  bool is_releasing_ = false;
};

// Decides in a worker which tasks it skips: those that follow a task that failed there, and those
// that the host refuses.
class WorkerSkips {
 public:
  // Takes each task in order. `refused`: the host's refuse_until().
  template <class Ids>
  bool skips(uint64_t run, TaskId task, const Ids& follows, TaskId refused) {
    if (run != run_) failed_.clear();
    run_ = run;
    bool is_poisoned = task <= refused;
    for (const TaskId earlier : follows) is_poisoned |= failed_.count(earlier) > 0;
    if (is_poisoned) failed_.insert(task);
    return is_poisoned;
  }
  void note_failure(TaskId task) { failed_.insert(task); }

 private:
  std::unordered_set<TaskId> failed_;  // of the run: failed tasks and their successors
  uint64_t run_ = 0;
};

}  // namespace pto
