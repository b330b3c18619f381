// SPDX-License-Identifier: Apache-2.0
// The host's side of worker processes: it starts them, feeds them and handles their end.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "pto/base/blocked_signals.hpp"
#include "pto/base/clock.hpp"
#include "pto/base/machine.hpp"
#include "pto/tasks/processes/host_state.hpp"
#include "pto/tasks/processes/serve.hpp"

namespace pto {
namespace {

constexpr uint64_t kStart_ns = 30'000'000'000;

// The workers as the book sees them: native ones, then Python's.
std::vector<BookWorker> workers_of(const HostOptions& options) {
  std::vector<BookWorker> workers;
  for (const bool is_python : {false, true})
    for (size_t i = 0; i < options.devices.size(); ++i) {
      BookWorker& worker = workers.emplace_back();
      worker.name = "device " + std::to_string(options.devices[i]);
      worker.device = int(i);
      worker.is_kept = !is_python;
    }
  return workers;
}

}  // namespace

HostEngine::State::State(const HostOptions& options)
    : options_(options),
      heap_(SharedHeap::make(options.memory_bytes)),
      book_(*this, workers_of(options)) {
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
  try {
    for (int device = 0; device < devices; ++device) start_if_ended(device);
    await_ready();
    const BlockedSignals blocked;
    attendant_ = std::thread([this] { attend(); });
  } catch (...) {
    ::close(bell_);
    throw;
  }
}

HostEngine::State::~State() { ::close(bell_); }

void HostEngine::close() {
  State& state = *state_;
  {
    const State::Lock lock(state.mutex_);
    if (state.is_closing_) return;
    PTO_ASSERT(!state.book_.is_running());
    state.is_closing_ = true;
  }
  state.look_at_time();
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

void HostEngine::State::start_if_ended(int number) {
  HostWorker& worker = *workers_[size_t(number)];
  if (worker.is_running() || !book_.worker(number).broken.empty()) return;
  start_process(worker);
  book_.worker_started(number);
  look_at_time();  // the attendant watches the process from now on
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

bool HostEngine::State::load(HostWorker& worker, uint32_t number) {
  if (worker.loaded.count(number) > 0) return true;
  const SharedProgram& program = programs_.at(number);
  char* const record = worker.mailbox->to_worker().begin_write(sizeof(LoadMessage));
  if (record == nullptr) return false;
  const LoadMessage message{{MessageKind::Load, number}, program.image->offset(), program.bytes};
  std::memcpy(record, &message, sizeof message);
  worker.mailbox->to_worker().end_write();
  worker.loaded.insert(number);
  return true;
}

bool HostEngine::State::send(int number, const BookTask& task) {
  HostWorker& worker = *workers_[size_t(number)];
  HostTask& own = of(task);
  if (!load(worker, own.program)) return false;
  size_t part = 0;
  while (task.parts[part].worker != number) ++part;
  std::string& message = own.messages[part];
  SharedRing& ring = worker.mailbox->to_worker();
  const size_t follows = task.follows.size() * sizeof(TaskId);
  char* const record = ring.begin_write(uint32_t(message.size() + follows));
  if (record == nullptr) return false;
  reinterpret_cast<TaskMessage*>(message.data())->follows = uint32_t(task.follows.size());
  std::memcpy(record, message.data(), message.size());
  if (follows > 0) std::memcpy(record + message.size(), task.follows.data(), follows);
  ring.end_write();
  return true;
}

void HostEngine::State::has_sent(int worker) { workers_[size_t(worker)]->mailbox->ring_worker(); }

uint64_t HostEngine::State::now_ns() { return uint64_t(pto::now_ns()); }

TaskId HostEngine::State::current_task(int worker) {
  return workers_[size_t(worker)]->mailbox->current_task();
}

void HostEngine::State::refuse_until(int worker, TaskId last) {
  workers_[size_t(worker)]->mailbox->refuse_until(last);
}

void HostEngine::State::kill(int worker) { workers_[size_t(worker)]->process->kill(); }

std::string HostEngine::State::start(int worker) {
  try {
    start_process(*workers_[size_t(worker)]);
    look_at_time();  // the attendant watches the process from now on
    return "";
  } catch (const Error& error) {
    return error.text().what;
  }
}

bool HostEngine::State::holds(const BookTask& gate) { return pto::holds(*of(gate).gate); }

void HostEngine::State::has_ended(const BookTask& task) {
  of(task).holds.clear();
  if (waiters_ > 0) changed_.notify_all();
}

// Wakes the attendant.
void HostEngine::State::look_at_time() {
  const uint64_t one = 1;
  while (write(bell_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void HostEngine::State::handle_end(int number) {
  take_answers();  // it may have finished more tasks
  HostWorker& worker = *workers_[size_t(number)];
  const ProcessEnd end = worker.process->reap();
  if (end.signal != 0) heap_->clear_free();
  const WorkerEnd known{"its worker process " + std::to_string(worker.process->pid()),
                        end.text,
                        end.signal == SIGBUS ? ": it touched memory behind all tensors" : "",
                        end.signal,
                        worker.mailbox->is_ready(),
                        worker.mailbox->current_task()};
  worker.process.reset();
  worker.visible = nullptr;
  retired_.push_back(std::move(worker.mailbox));
  book_.worker_ended(number, known);
  if (waiters_ > 0) changed_.notify_all();
}

}  // namespace pto
