// SPDX-License-Identifier: Apache-2.0
// Takes the workers' answers, and runs the thread that wakes when nobody else waits.
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
  for (int w = 0; w < int(workers_.size()); ++w) {
    HostWorker& worker = *workers_[size_t(w)];
    if (worker.mailbox == nullptr) continue;
    SharedRing& ring = worker.mailbox->to_host();
    bool has_any = false;
    try {
      for (std::span<const char> record; (record = ring.front()).data() != nullptr; ring.pop()) {
        take_answer(w, record);
        has_any = true;
      }
    } catch (const Error&) {  // its memory is overwritten: it cannot go on
      book_.distrust(w);
    }
    if (has_any) book_.pump(w);
  }
}

void HostEngine::State::take_answer(int worker, std::span<const char> record) {
  Answer answer{};
  if (record.size() < sizeof answer) return book_.distrust(worker);
  std::memcpy(&answer, record.data(), sizeof answer);
  const BookTask* const task = book_.task(answer.task);
  if (trace_ != nullptr && task != nullptr && answer.outcome != Outcome::Skipped)
    note_record(*workers_[size_t(worker)], *task, answer);
  book_.take_answer(worker, answer.task, answer.outcome,
                    {record.data() + sizeof answer, record.size() - sizeof answer});
}

void HostEngine::State::note_record(const HostWorker& worker, const BookTask& task,
                                    const Answer& answer) {
  const HostTask& own = of(task);
  if (trace_->calls.size() <= own.kernel_number) trace_->calls.resize(own.kernel_number + 1u);
  ++trace_->calls[own.kernel_number];
  if (!traces(kRecords)) return;
  trace_->records.push_back(record_of(
      task.id,
      {trace_start_ns_, task.ready_ns, answer.start_ns, answer.start_ns + answer.duration_ns, 1},
      own.kernel_number, worker.device, own.site_number));
}

// --- the attendant -------------------------------------------------------------------------------

void HostEngine::State::want_bells() {
  for (int w = 0; w < int(workers_.size()); ++w)
    if (const auto& mailbox = workers_[size_t(w)]->mailbox;
        mailbox != nullptr && !book_.worker(w).sent.empty())
      mailbox->want_bell(awaits_answers());
}

int HostEngine::State::timeout_ms() {
  int pause = book_.has_gates() ? kGatePause_ms : -1;
  for (const auto& worker : workers_)
    if (worker->is_running() && worker->process->end_fd() < 0)
      pause = pause < 0 ? kChildPause_ms : std::min(pause, kChildPause_ms);
  const uint64_t next = book_.next_time_ns();
  if (next == UINT64_MAX) return pause;
  const uint64_t now = now_ns();
  const int left = next > now ? int(std::min<uint64_t>((next - now) / 1'000'000 + 1, 60'000)) : 0;
  return pause < 0 ? left : std::min(pause, left);
}

void HostEngine::State::attend() {
  std::vector<pollfd> fds;
  std::vector<int> watched;
  Lock lock(mutex_);
  while (!is_closing_) {
    take_answers();
    book_.look_at_gates();
    book_.keep_time();
    if (waiters_ > 0) changed_.notify_all();
    if (awaits_answers() || book_.awaits_room()) {
      want_bells();
      if (has_answers()) continue;
    }
    fds.assign(1, {bell_, POLLIN, 0});
    watched.clear();
    for (int w = 0; w < int(workers_.size()); ++w) {
      if (!workers_[size_t(w)]->is_running()) continue;
      watched.push_back(w);
      fds.push_back({workers_[size_t(w)]->process->end_fd(), POLLIN, 0});
    }
    const int timeout = timeout_ms();
    lock.unlock();
    poll(fds.data(), fds.size(), timeout);
    if (fds[0].revents != 0) {
      uint64_t count;
      [[maybe_unused]] const ssize_t n = read(bell_, &count, sizeof count);
    }
    lock.lock();
    for (size_t i = 0; i < watched.size() && !is_closing_; ++i) {
      const HostWorker& worker = *workers_[size_t(watched[i])];
      if ((fds[i + 1].revents != 0 || fds[i + 1].fd < 0) && worker.is_running() &&
          worker.process->has_ended())
        handle_end(watched[i]);
    }
  }
}

}  // namespace pto
