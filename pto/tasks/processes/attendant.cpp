// SPDX-License-Identifier: Apache-2.0
// Takes the workers' answers, handles failures, and runs the thread that wakes when nobody else
// waits.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pto/base/clock.hpp"
#include "pto/tasks/processes/host_state.hpp"
#include "pto/tasks/processes/serve.hpp"

namespace pto {
namespace {

// How long a group's member may go on after another has failed: it may be waiting for that one.
constexpr uint64_t kGroupGrace_ns = 20'000'000;
// How often the attendant reads memory that gates watch.
constexpr int kGatePause_ms = 1;
// How often it polls children if the system has no file descriptors of processes.
constexpr int kChildPause_ms = 20;

}  // namespace

bool HostEngine::State::has_answers() const {
  for (const auto& worker : workers_)
    if (Mailbox* const mailbox = worker->visible.load(std::memory_order_acquire);
        mailbox != nullptr && !mailbox->to_host().is_empty())
      return true;
  return false;
}

void HostEngine::State::take_answers() {
  for (const auto& worker : workers_) {
    if (worker->mailbox == nullptr) continue;
    SharedRing& ring = worker->mailbox->to_host();
    bool has_any = false;
    try {
      for (std::span<const char> record; (record = ring.front()).data() != nullptr; ring.pop()) {
        take_answer(*worker, record);
        has_any = true;
      }
    } catch (const Error&) {  // its memory is overwritten: it cannot go on
      worker->kill_reason = "it wrote over the memory of its mailbox";
      worker->process->kill();
    }
    if (has_any) pump(*worker);
  }
}

void HostEngine::State::take_answer(HostWorker& worker, std::span<const char> record) {
  Answer answer{};
  if (record.size() >= sizeof answer) std::memcpy(&answer, record.data(), sizeof answer);
  if (worker.sent.empty() || worker.sent.front()->id != answer.task) {
    worker.process->kill();  // no valid answer, or one to no task: as above
    return;
  }
  const std::string text(record.data() + sizeof answer, record.size() - sizeof answer);
  HostTask& task = *worker.sent.front();
  worker.sent.pop_front();
  if (trace_ != nullptr && answer.outcome != Outcome::Skipped) note_record(worker, task, answer);
  if (answer.outcome == Outcome::Failed) {
    fail_task(task, &worker, text, 0);
    hurry_members(task);
  }
  finish_part(task, worker);
}

void HostEngine::State::note_record(const HostWorker& worker, const HostTask& task,
                                    const Answer& answer) {
  if (trace_->calls.size() <= task.kernel_number) trace_->calls.resize(task.kernel_number + 1u);
  ++trace_->calls[task.kernel_number];
  if (!traces(kRecords)) return;
  const auto since = [&](uint64_t from) {
    return answer.start_ns - std::min(answer.start_ns, from);
  };
  const auto narrow = [](uint64_t ns) { return uint32_t(std::min<uint64_t>(ns, UINT32_MAX)); };
  trace_->records.push_back({task.id, since(trace_start_ns_), narrow(answer.duration_ns),
                             narrow(since(task.ready_ns)), task.kernel_number,
                             uint16_t(worker.device), task.site_number});
}

void HostEngine::State::finish_part(HostTask& task, HostWorker& worker) {
  for (HostTask::Part& part : task.parts)
    if (part.worker == &worker) part.is_answered = true;
  if (worker.kill_task == task.id) {
    worker.kill_task = 0;
    worker.kill_reason.clear();
  }
  --queued_tasks_;
  if (--task.parts_left == 0) finish(task);
}

// Finishes the task and releases its successors, without recursion: chains are long.
void HostEngine::State::finish(HostTask& task) {
  if (task.cause >= 0) causes_.emplace(task.id, task.cause);
  task.stage = HostTask::Stage::Done;
  task.holds.clear();
  --unfinished_;
  finished_.push_back(&task);
  if (is_releasing_) return;
  is_releasing_ = true;
  while (!finished_.empty()) {
    HostTask& next = *finished_.back();
    finished_.pop_back();
    release_successors(next);
  }
  is_releasing_ = false;
  if (!gates_.empty()) look_at_gates();
  if (waiters_ > 0) changed_.notify_all();
}

void HostEngine::State::release_successors(HostTask& task) {
  const std::vector<HostTask::Successor> successors = std::move(task.successors);
  task.successors.clear();
  for (const HostTask::Successor& next : successors) {
    HostTask& to = *next.task;
    if (to.id != next.id || to.stage == HostTask::Stage::Done) continue;
    if (task.cause >= 0 && to.cause < 0) to.cause = task.cause;
    if (next.is_released || --to.pending > 0) continue;
    --waiting_tasks_;
    enqueue(to);
  }
}

void HostEngine::State::fail_task(HostTask& task, const HostWorker* worker, std::string text,
                                  int signal) {
  if (task.cause >= 0) return;
  task.cause = int32_t(failures_.size());
  failures_.push_back({task.id, task.name, task.site, std::move(text),
                       worker != nullptr ? worker->device : -1, signal, 0});
}

// Gives members that run on after their group has failed kGroupGrace_ns: they may wait for ever.
void HostEngine::State::hurry_members(HostTask& task) {
  if (task.parts.size() < 2) return;
  for (HostTask::Part& part : task.parts) {
    if (part.is_answered || part.worker->kill_task != 0) continue;
    part.worker->kill_task = task.id;
    part.worker->kill_at_ns = uint64_t(now_ns()) + kGroupGrace_ns;
    part.worker->kill_reason = "another member of its group had failed";
  }
  wake_attendant();
}

// Finishes gates whose predicate holds. A gate fails if no task is left that could change its
// element and none will come.
void HostEngine::State::look_at_gates() {
  for (size_t i = 0; i < gates_.size();) {
    HostTask& task = *gates_[i];
    if (task.cause < 0 && !holds(*task.gate)) {
      if (!is_ending_ || queued_tasks_ > 0 ||
          unfinished_ > waiting_tasks_ + int64_t(gates_.size())) {
        ++i;
        continue;
      }
      fail_task(task, nullptr,
                "a deadlock: it waits for a number in memory, and no task is left that could "
                "change it",
                0);
    }
    gates_.erase(gates_.begin() + std::ptrdiff_t(i));
    finish(task);
    i = 0;
  }
}

void HostEngine::State::stop_run(const std::string& text, bool kills) {
  if (!is_stopped_) {
    is_stopped_ = true;
    failures_.push_back({0, "", "", text, -1, 0, 0});
  }
  const auto cause = int32_t(failures_.size()) - 1;
  for (TaskId id = std::max(first_, last_ > slots_.size() ? last_ - slots_.size() + 1 : 1);
       id <= last_; ++id) {
    HostTask& task = slot(id);
    if (task.id == id && task.stage != HostTask::Stage::Done && task.cause < 0) task.cause = cause;
  }
  for (const auto& worker : workers_) {
    if (worker->mailbox == nullptr) continue;
    worker->mailbox->refuse_until(last_);
    if (!kills || worker->sent.empty()) continue;
    worker->kill_reason = text;
    worker->process->kill();
  }
  look_at_gates();
  for (const auto& worker : workers_) pump(*worker);
  wake_attendant();
}

// --- the attendant -------------------------------------------------------------------------------

void HostEngine::State::wake_attendant() {
  const uint64_t one = 1;
  while (write(bell_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool HostEngine::State::awaits_room() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return !worker->queue.empty(); });
}

void HostEngine::State::want_bells() {
  for (const auto& worker : workers_)
    if (worker->mailbox != nullptr && !worker->sent.empty())
      worker->mailbox->want_bell(awaits_answers());
}

// Kills processes whose time is over, and stops a run whose deadline has passed.
void HostEngine::State::keep_time() {
  const uint64_t now = uint64_t(now_ns());
  if (is_running_ && deadline_ns_ != 0 && now >= deadline_ns_) {
    deadline_ns_ = 0;
    char text[64];
    std::snprintf(text, sizeof text, "its deadline of %g s has passed", deadline_s_);
    stop_run(text, true);
  }
  for (const auto& worker : workers_) {
    if (worker->kill_task == 0 || now < worker->kill_at_ns || !worker->is_running()) continue;
    if (worker->mailbox->current_task() != worker->kill_task) {  // it still runs an earlier task
      worker->kill_at_ns = now + kGroupGrace_ns;
      continue;
    }
    worker->kill_task = 0;
    worker->process->kill();
  }
}

int HostEngine::State::timeout_ms() {
  uint64_t next = is_running_ && deadline_ns_ != 0 ? deadline_ns_ : UINT64_MAX;
  int pause = gates_.empty() ? -1 : kGatePause_ms;
  for (const auto& worker : workers_) {
    if (worker->kill_task != 0) next = std::min(next, worker->kill_at_ns);
    if (worker->is_running() && worker->process->end_fd() < 0)
      pause = pause < 0 ? kChildPause_ms : std::min(pause, kChildPause_ms);
  }
  if (next == UINT64_MAX) return pause;
  const uint64_t now = uint64_t(now_ns());
  const int left = next > now ? int(std::min<uint64_t>((next - now) / 1'000'000 + 1, 60'000)) : 0;
  return pause < 0 ? left : std::min(pause, left);
}

void HostEngine::State::attend() {
  std::vector<pollfd> fds;
  std::vector<HostWorker*> watched;
  Lock lock(mutex_);
  while (!is_closing_) {
    take_answers();
    look_at_gates();
    keep_time();
    if (waiters_ > 0) changed_.notify_all();
    if (awaits_answers() || awaits_room()) {
      want_bells();
      if (has_answers()) continue;
    }
    fds.assign(1, {bell_, POLLIN, 0});
    watched.clear();
    for (const auto& worker : workers_) {
      if (!worker->is_running()) continue;
      watched.push_back(worker.get());
      fds.push_back({worker->process->end_fd(), POLLIN, 0});
    }
    const int timeout = timeout_ms();
    lock.unlock();
    poll(fds.data(), fds.size(), timeout);
    if (fds[0].revents != 0) {
      uint64_t count;
      [[maybe_unused]] const ssize_t n = read(bell_, &count, sizeof count);
    }
    lock.lock();
    for (size_t i = 0; i < watched.size() && !is_closing_; ++i)
      if ((fds[i + 1].revents != 0 || fds[i + 1].fd < 0) && watched[i]->is_running() &&
          watched[i]->process->has_ended())
        handle_end(*watched[i]);
  }
}

}  // namespace pto
