// SPDX-License-Identifier: Apache-2.0
// Workers: what they are sent, what they answer, and how their deaths are handled.
#include <algorithm>

#include "pto/tasks/book/task_book.hpp"

namespace pto {
namespace {

// The most lives in a row that may end before the worker is ready.
constexpr int kEarlyEndsMost = 3;
// The number of workers that must die with a task next in line before it counts as the cause.
constexpr int kDeathsMost = 3;

}  // namespace

bool TaskBook::awaits_room() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const BookWorker& worker) { return !worker.queue.empty(); });
}

void TaskBook::pump(int number) {
  BookWorker& worker = workers_[size_t(number)];
  bool has_sent = false;
  while (!worker.queue.empty() && worker.sent.size() < sent_most_) {
    BookTask& task = *worker.queue.front();
    if (!worker.broken.empty()) fail_task(task, &worker, worker.broken, 0);
    if (task.cause >= 0) {
      worker.queue.pop_front();
      end_part(task, number, Outcome::Skipped);
      continue;
    }
    if (!worker.is_up) {
      start(number);
      continue;
    }
    if (!driver_.send(number, task)) break;
    worker.queue.pop_front();
    worker.sent.push_back(&task);
    has_sent = true;
  }
  if (has_sent) driver_.has_sent(number);
}

void TaskBook::start(int number) {
  BookWorker& worker = workers_[size_t(number)];
  worker.broken = driver_.start(number);
  worker.is_up = worker.broken.empty();
}

void TaskBook::take_answer(int number, TaskId id, Outcome outcome, const std::string& text) {
  BookWorker& worker = workers_[size_t(number)];
  if (worker.sent.empty() || worker.sent.front()->id != id) return distrust(number);
  BookTask& task = *worker.sent.front();
  worker.sent.pop_front();
  if (outcome == Outcome::Failed) fail_task(task, &worker, text, 0);
  end_part(task, number, outcome);
}

void TaskBook::distrust(int number) { kill(number, "it wrote over the memory of its mailbox"); }

void TaskBook::kill(int number, const std::string& why) {
  workers_[size_t(number)].kill_reason = why;
  driver_.kill(number);
}

// Limits the time of the first part whose group lacks another: it may wait for that one for ever.
void TaskBook::hurry(int number) {
  BookWorker& worker = workers_[size_t(number)];
  const auto found = std::find_if(worker.sent.begin(), worker.sent.end(),
                                  [](const BookTask* task) { return task->lacks_a_part; });
  if (found == worker.sent.end() || worker.kill_task == (*found)->id) return;
  worker.kill_task = (*found)->id;
  worker.has_begun_kill_task = driver_.current_task(number) == worker.kill_task;
  worker.kill_at_ns = driver_.now_ns() + kGroupGrace_ns;
  worker.kill_reason = "another member of its group had failed";
  driver_.look_at_time();
}

// The task that the worker had begun has failed; those that it had not begun go to its next life.
void TaskBook::worker_ended(int number, const WorkerEnd& end) {
  BookWorker& worker = workers_[size_t(number)];
  worker.is_up = false;
  worker.kill_task = 0;
  const std::string reason = worker.kill_reason.empty() ? "" : ": " + worker.kill_reason;
  worker.kill_reason.clear();
  std::deque<BookTask*> sent = std::move(worker.sent);
  worker.sent.clear();
  BookTask* begun = nullptr;
  if (!sent.empty() && (sent.front()->id == end.current || ++sent.front()->deaths >= kDeathsMost)) {
    begun = sent.front();
    sent.pop_front();
  }
  worker.queue.insert(worker.queue.begin(), sent.begin(), sent.end());
  worker.early_ends = end.was_ready ? 0 : worker.early_ends + 1;
  if (worker.early_ends >= kEarlyEndsMost)
    worker.broken = "its worker process cannot start: " + std::to_string(kEarlyEndsMost) +
                    " times in a row it " + end.how;
  ++replaced_;
  if (begun != nullptr) {
    fail_task(*begun, &worker, end.who + " " + end.how + reason + end.why, end.signal);
    end_part(*begun, number, Outcome::Failed);
  }
  if (worker.is_kept && !worker.is_up && worker.broken.empty()) start(number);
  pump(number);
}

}  // namespace pto
