// SPDX-License-Identifier: Apache-2.0
// Tasks: their submission, edges and ends, and the run that they belong to.
#include "pto/tasks/book/task_book.hpp"

#include <algorithm>
#include <cstdio>

#include "pto/base/clock.hpp"

namespace pto {
namespace {

// The most predecessors that a worker is sent with a task; a task with more waits here.
constexpr size_t kFollowsMost = 1024;

// Says whether `later` may stand behind `earlier` in the queue of the only worker of both.
bool may_stand_behind(const BookTask& later, const BookTask& earlier) {
  return earlier.parts.size() == 1 && later.parts.size() == 1 &&
         earlier.parts[0].worker == later.parts[0].worker && later.follows.size() < kFollowsMost;
}

}  // namespace

// --- the run -------------------------------------------------------------------------------------

void TaskBook::begin_run(int64_t window, double deadline_s, bool is_timed) {
  check_window(window);
  PTO_ASSERT(!is_running_);
  if (slots_.size() != size_t(window)) slots_ = std::vector<BookTask>(size_t(window));
  for (BookWorker& worker : workers_) {
    worker.broken.clear();
    worker.early_ends = 0;
  }
  is_running_ = true;
  is_ending_ = false;
  is_timed_ = is_timed;
  stop_ = -1;
  first_ = last_ + 1;
  tasks_ = edges_ = replaced_ = 0;
  failures_.clear();
  deadline_s_ = deadline_s;
  deadline_ns_ = deadline_s > 0 ? driver_.now_ns() + uint64_t(span_ns(deadline_s)) : 0;
  if (deadline_ns_ != 0) driver_.look_at_time();
}

void TaskBook::stop(const std::string& text, bool kills) {
  if (stop_ < 0) stop_ = failures_.note({.task = 0, .text = text});
  const TaskId window = slots_.size();
  for (TaskId id = std::max(first_, last_ > window ? last_ - window + 1 : 1); id <= last_; ++id) {
    BookTask& task = slot(id);
    if (task.id == id && task.stage != BookTask::Stage::Done && task.cause < 0) task.cause = stop_;
  }
  for (int w = 0; w < int(workers_.size()); ++w) {
    BookWorker& worker = workers_[size_t(w)];
    if (!worker.is_up) continue;
    driver_.refuse_until(w, last_);
    if (kills && !worker.sent.empty()) kill(w, text);
  }
  look_at_gates();
  for (int w = 0; w < int(workers_.size()); ++w) pump(w);
  driver_.look_at_time();
}

void TaskBook::begin_end() {
  is_ending_ = true;
  look_at_gates();
}

void TaskBook::await(TaskId id) {
  awaited_ = id;
  look_at_gates();
}

void TaskBook::end_run() {
  PTO_ASSERT(unfinished_ == 0);
  is_running_ = false;
  deadline_ns_ = 0;
}

bool TaskBook::is_at_rest() const {
  const bool is_idle = std::all_of(workers_.begin(), workers_.end(), [](const BookWorker& worker) {
    return worker.queue.empty() && worker.sent.empty() && worker.kill_task == 0;
  });
  const bool is_free = std::all_of(slots_.begin(), slots_.end(), [](const BookTask& task) {
    return task.stage == BookTask::Stage::Free || task.stage == BookTask::Stage::Done;
  });
  return is_idle && is_free && unfinished_ == 0 && waiting_ == 0 && queued_parts_ == 0 &&
         gates_.empty() && finished_.empty();
}

// --- submission ----------------------------------------------------------------------------------

BookTask& TaskBook::open(std::string_view name, std::string_view site) {
  PTO_ASSERT(is_running_ && has_room());
  BookTask& task = slot(++last_);
  awaited_ = 0;
  task.id = last_;
  task.stage = BookTask::Stage::Waiting;
  task.lacks_a_part = false;
  task.name = name;
  task.site = site;
  task.pending = 1;
  task.cause = -1;
  task.deaths = 0;
  task.successors.clear();
  task.follows.clear();
  task.parts.clear();
  ++unfinished_;
  return task;
}

void TaskBook::follow(BookTask& task, TaskId earlier) {
  if (earlier < first_ || earlier == task.id) return;
  if (task.cause < 0) task.cause = failures_.cause_of(earlier);
  BookTask& before = slot(earlier);
  if (before.id != earlier || before.stage == BookTask::Stage::Done) return;
  if (!before.successors.empty() && before.successors.back().task == &task) return;
  ++edges_;
  const bool stands_behind =
      before.stage == BookTask::Stage::Queued && may_stand_behind(task, before);
  before.successors.push_back({&task, stands_behind});
  if (stands_behind)
    task.follows.push_back(earlier);
  else
    ++task.pending;
}

void TaskBook::release(BookTask& task) {
  ++tasks_;
  task.parts_left = int32_t(task.parts.size());
  if (--task.pending == 0)
    enqueue(task);
  else
    ++waiting_;
}

// The task's edges may be incomplete, so nothing new may begin; this task still ends.
void TaskBook::give_up(BookTask& task) {
  stop("a submission ended with an error", false);
  finish(task);
}

// Queues a task whose predecessors are all done or stand in the same queue before it.
void TaskBook::enqueue(BookTask& task) {
  if (is_timed_) task.ready_ns = driver_.now_ns();
  if (task.is_gate()) {
    gates_.push_back(&task);
    task.stage = BookTask::Stage::Queued;
    look_at_gates();
    return;
  }
  if (task.cause >= 0) return finish(task);
  task.stage = BookTask::Stage::Queued;
  for (const BookTask::Part& part : task.parts)
    workers_[size_t(part.worker)].queue.push_back(&task);
  queued_parts_ += int64_t(task.parts.size());
  for (BookTask::Successor& next : task.successors) {
    BookTask& to = *next.task;
    if (next.is_released || !may_stand_behind(to, task)) continue;
    next.is_released = true;
    to.follows.push_back(task.id);
    if (--to.pending == 0) {
      --waiting_;
      enqueue(to);
    }
  }
  for (const BookTask::Part& part : task.parts) pump(part.worker);
}

// --- ends ----------------------------------------------------------------------------------------

void TaskBook::end_part(BookTask& task, int worker, Outcome outcome) {
  for (BookTask::Part& part : task.parts)
    if (part.worker == worker) part.has_ended = true;
  --queued_parts_;
  BookWorker& own = workers_[size_t(worker)];
  if (own.kill_task == task.id) {
    own.kill_task = 0;
    own.kill_reason.clear();
    hurry(worker);  // it may have a part of another group that lacks one
  }
  if (outcome != Outcome::Done && task.parts.size() > 1) {
    task.lacks_a_part = true;
    for (const BookTask::Part& part : task.parts)
      if (!part.has_ended) hurry(part.worker);
  }
  if (--task.parts_left == 0) finish(task);
}

// Finishes the task and releases its successors, without recursion: chains are long. Successors
// that stand behind it in a queue may be sent before they are released, so they are poisoned here.
void TaskBook::finish(BookTask& task) {
  task.stage = BookTask::Stage::Done;
  if (task.cause >= 0) {
    failures_.poison(task.id, task.cause);
    for (const BookTask::Successor& next : task.successors)
      if (next.task->stage != BookTask::Stage::Done && next.task->cause < 0)
        next.task->cause = task.cause;
  }
  --unfinished_;
  driver_.has_ended(task);
  finished_.push_back(&task);
  if (is_releasing_) return;
  is_releasing_ = true;
  while (!finished_.empty()) {
    BookTask& next = *finished_.back();
    finished_.pop_back();
    release_successors(next);
  }
  is_releasing_ = false;
  if (has_gates()) look_at_gates();
}

void TaskBook::release_successors(BookTask& task) {
  const std::vector<BookTask::Successor> successors = std::move(task.successors);
  task.successors.clear();
  for (const BookTask::Successor& next : successors) {
    BookTask& to = *next.task;
    if (to.stage == BookTask::Stage::Done || next.is_released || --to.pending > 0) continue;
    --waiting_;
    enqueue(to);
  }
}

void TaskBook::fail_task(BookTask& task, const BookWorker* worker, std::string text, int signal) {
  if (task.cause >= 0) return;
  TaskFailure failure{.task = task.id, .name = task.name, .site = task.site};
  failure.text = std::move(text);
  failure.signal = signal;
  if (worker != nullptr) {
    failure.place = "on " + worker->name;
    failure.device = worker->device;
  }
  task.cause = failures_.note(std::move(failure));
}

// Finishes gates that hold. If none does, no task is left that could open one and none will come,
// the first fails.
void TaskBook::look_at_gates() {
  while (has_gates()) {
    auto found = std::find_if(gates_.begin(), gates_.end(), [&](const BookTask* gate) {
      return gate->cause >= 0 || driver_.holds(*gate);
    });
    if (found == gates_.end()) {
      const bool may_come = !is_ending_ && (awaited_ == 0 || is_done(awaited_));
      const bool may_change = may_come || is_releasing_ || queued_parts_ > 0 ||
                              unfinished_ > waiting_ + int64_t(gates_.size());
      if (may_change) return;
      found = gates_.begin();
      fail_task(**found, nullptr,
                "a deadlock: it waits for a number in memory, and no task is left that could "
                "change it",
                0);
    }
    BookTask& gate = **found;
    gates_.erase(found);
    finish(gate);
  }
}

// --- time ----------------------------------------------------------------------------------------

uint64_t TaskBook::next_time_ns() const {
  uint64_t next = is_running_ && deadline_ns_ != 0 ? deadline_ns_ : UINT64_MAX;
  for (const BookWorker& worker : workers_)
    if (worker.kill_task != 0) next = std::min(next, worker.kill_at_ns);
  return next;
}

void TaskBook::keep_time() {
  if (next_time_ns() == UINT64_MAX) return;
  const uint64_t now = driver_.now_ns();
  if (is_running_ && deadline_ns_ != 0 && now >= deadline_ns_) {
    deadline_ns_ = 0;
    char text[64];
    std::snprintf(text, sizeof text, "its deadline of %g s has passed", deadline_s_);
    stop(text, true);
  }
  for (int w = 0; w < int(workers_.size()); ++w) {
    BookWorker& worker = workers_[size_t(w)];
    if (worker.kill_task == 0 || now < worker.kill_at_ns || !worker.is_up) continue;
    if (!worker.has_begun_kill_task) {  // when last looked at, it ran an earlier task
      worker.has_begun_kill_task = driver_.current_task(w) == worker.kill_task;
      worker.kill_at_ns = now + kGroupGrace_ns;
      continue;
    }
    worker.kill_task = 0;
    driver_.kill(w);
  }
}

}  // namespace pto
