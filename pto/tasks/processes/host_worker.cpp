// SPDX-License-Identifier: Apache-2.0
// The host's side of worker processes: it starts them, feeds them and handles their end.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "pto/base/clock.hpp"
#include "pto/base/machine.hpp"
#include "pto/tasks/processes/host_state.hpp"
#include "pto/tasks/processes/serve.hpp"

namespace pto {
namespace {

// Unanswered messages that a worker has at once; if it dies, they are sent again.
constexpr size_t kSentMost = 256;
// So many processes in a row may end before they are ready.
constexpr int kEarlyEndsMost = 3;
// A task counts as the cause once so many processes have died when it was next.
constexpr int kDeathsMost = 3;
constexpr uint64_t kStart_ns = 30'000'000'000;

}  // namespace

HostEngine::State::State(const HostOptions& options)
    : options_(options), process_(getpid()), heap_(SharedHeap::make(options.memory_bytes)) {
  bell_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_ < 0)
    fail({std::string("a descriptor for events: ") + std::strerror(errno),
          "workers wake the host by one", "raise the limit of descriptors: ulimit -n"},
         ErrorKind::Runtime);
  const int cores = machine().cores, devices = int(options.devices.size());
  threads_ = options.threads > 0 ? options.threads : std::max(1, cores / std::max(1, devices));
  // Workers spin only if each has a core: a spinning worker would keep one from the others.
  spin_us_ = worker_spin_us_ = devices < cores ? machine().spin_us : 0;
  for (int lane = 0; lane < 2; ++lane)
    for (int device = 0; device < devices; ++device) {
      workers_.push_back(std::make_unique<HostWorker>());
      workers_.back()->device = device;
      workers_.back()->is_python = lane == 1;
    }
  slots_ = std::vector<HostTask>(2);
  try {
    for (int device = 0; device < devices; ++device) start_process(*workers_[size_t(device)]);
    await_ready();
  } catch (...) {
    ::close(bell_);
    throw;
  }
  attendant_ = std::thread([this] { attend(); });
}

HostEngine::State::~State() { ::close(bell_); }

void HostEngine::close() {
  State& state = *state_;
  {
    const State::Lock lock(state.mutex_);
    if (state.is_closing_) return;
    PTO_ASSERT(!state.is_running_);
    state.is_closing_ = true;
  }
  state.wake_attendant();
  if (state.attendant_.joinable()) state.attendant_.join();
  const State::Lock lock(state.mutex_);
  for (const auto& worker : state.workers_) {
    worker->process.reset();  // it is idle: no work is lost
    worker->visible = nullptr;
    worker->mailbox.reset();
  }
  state.programs_.clear();
  state.memory_.clear();
}

void HostEngine::State::start_process(HostWorker& worker) {
  worker.mailbox = std::make_unique<Mailbox>(Mailbox::make());
  worker.visible = worker.mailbox.get();
  worker.loaded.clear();
  std::vector<std::string> program = worker.is_python ? options_.python_worker : options_.worker;
  if (program.empty())
    fail({"no command line of a worker", "each device is a process", "set worker, python_worker"});
  const SharedRegion& mailbox = worker.mailbox->region();
  for (int64_t number :
       {int64_t(getpid()), mailbox.bytes(), heap_->region().bytes(),
        int64_t(options_.devices[size_t(worker.device)]), int64_t(worker_spin_us_)})
    program.push_back(std::to_string(number));
  const int fds[] = {mailbox.fd(), heap_->region().fd(), bell_};
  worker.process = std::make_unique<ChildProcess>(
      program, fds,
      std::vector<std::pair<std::string, std::string>>{
          {"PTO_NUM_THREADS", std::to_string(std::min(threads_, machine().cores))}});
  ++worker.starts;
}

void HostEngine::State::await_ready() {
  const uint64_t end = uint64_t(now_ns()) + kStart_ns;
  for (const auto& worker : workers_)
    while (worker->is_running() && !worker->mailbox->is_ready()) {
      const bool has_ended = worker->process->has_ended();
      if (has_ended || uint64_t(now_ns()) > end)
        fail({"the worker process of device " +
                  std::to_string(options_.devices[size_t(worker->device)]) +
                  (has_ended
                       ? " " + worker->process->reap().text
                       : " has not answered for " + std::to_string(kStart_ns / 1000000000) + " s"),
              "each device of level host is a process of its own: " + options_.worker[0],
              "run it in a terminal to see why; ./dev build makes it anew"},
             ErrorKind::Runtime);
      usleep(50);
    }
}

HostWorker& HostEngine::State::worker_for(int device, bool is_python) {
  HostWorker& worker =
      *workers_[size_t(device) + (is_python ? options_.devices.size() : size_t(0))];
  if (!worker.is_running() && worker.broken.empty()) {
    start_process(worker);
    wake_attendant();  // which watches the process from now on
  }
  return worker;
}

// Sends as many queued tasks as there is room for.
void HostEngine::State::pump(HostWorker& worker) {
  bool has_sent = false;
  while (!worker.queue.empty() && worker.sent.size() < kSentMost) {
    HostTask& task = *worker.queue.front();
    if (!worker.broken.empty()) fail_task(task, &worker, worker.broken, 0);
    if (task.cause >= 0) {
      worker.queue.pop_front();
      finish_part(task, worker);
      continue;
    }
    if (worker.mailbox == nullptr || !send(worker, task)) break;
    worker.queue.pop_front();
    worker.sent.push_back(&task);
    has_sent = true;
  }
  if (has_sent) worker.mailbox->ring_worker();
}

bool HostEngine::State::load(HostWorker& worker, uint32_t number) {
  if (worker.loaded.count(number) > 0) return true;
  const Program& program = programs_.at(number);
  char* const record = worker.mailbox->to_worker().begin_write(sizeof(LoadMessage));
  if (record == nullptr) return false;
  const LoadMessage message{{MessageKind::Load, number}, program.image->offset(), program.bytes};
  std::memcpy(record, &message, sizeof message);
  worker.mailbox->to_worker().end_write();
  worker.loaded.insert(number);
  return true;
}

bool HostEngine::State::send(HostWorker& worker, HostTask& task) {
  if (!load(worker, task.program)) return false;
  std::string* message = nullptr;
  for (HostTask::Part& part : task.parts)
    if (part.worker == &worker) message = &part.message;
  SharedRing& ring = worker.mailbox->to_worker();
  char* const record =
      ring.begin_write(uint32_t(message->size() + task.follows.size() * sizeof(TaskId)));
  if (record == nullptr) return false;
  reinterpret_cast<TaskMessage*>(message->data())->follows = uint32_t(task.follows.size());
  std::memcpy(record, message->data(), message->size());
  if (!task.follows.empty())
    std::memcpy(record + message->size(), task.follows.data(),
                task.follows.size() * sizeof(TaskId));
  ring.end_write();
  return true;
}

// Handles a dead process: its current task has failed; tasks that it had not begun go to the next
// one.
void HostEngine::State::handle_end(HostWorker& worker) {
  take_answers();  // it may have finished more tasks
  const ProcessEnd end = worker.process->reap();
  if (end.signal != 0) heap_->clear_free();
  const bool was_ready = worker.mailbox->is_ready();
  const TaskId current = worker.mailbox->current_task();
  const int pid = worker.process->pid();
  worker.process.reset();
  worker.visible = nullptr;
  retired_.push_back(std::move(worker.mailbox));
  worker.kill_task = 0;
  const std::string text = "its worker process " + std::to_string(pid) + " " + end.text +
                           (worker.kill_reason.empty() ? "" : ": " + worker.kill_reason) +
                           (end.signal == SIGBUS ? ": it touched memory behind all tensors" : "");
  worker.kill_reason.clear();
  std::deque<HostTask*> sent = std::move(worker.sent);
  worker.sent.clear();
  HostTask* begun = nullptr;
  if (!sent.empty() && (sent.front()->id == current || ++sent.front()->deaths >= kDeathsMost)) {
    begun = sent.front();
    sent.pop_front();
  }
  worker.queue.insert(worker.queue.begin(), sent.begin(), sent.end());
  worker.early_ends = was_ready ? 0 : worker.early_ends + 1;
  if (worker.early_ends >= kEarlyEndsMost)
    worker.broken = "its worker process cannot start: " + std::to_string(kEarlyEndsMost) +
                    " times in a row it " + end.text;
  ++report_.replaced_workers;
  if (begun != nullptr) {
    fail_task(*begun, &worker, text, end.signal);
    hurry_members(*begun);
    finish_part(*begun, worker);
  }
  if (worker.broken.empty() && (!worker.is_python || !worker.queue.empty())) {
    try {
      start_process(worker);
    } catch (const Error& error) {
      worker.broken = error.text().what;
    }
  }
  pump(worker);
  if (waiters_ > 0) changed_.notify_all();
}

}  // namespace pto
