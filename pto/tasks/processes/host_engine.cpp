// SPDX-License-Identifier: Apache-2.0
// The submitting thread's side of the host engine: programs, tasks, waiting, the end of a run.
#include "pto/tasks/processes/host_engine.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "pto/base/clock.hpp"
#include "pto/base/machine.hpp"
#include "pto/launch/contiguous.hpp"
#include "pto/tasks/processes/host_state.hpp"
#include "pto/tasks/processes/serve.hpp"

namespace pto {
namespace {

// A block's history keeps so many boxes after a run; a larger one starts again empty.
constexpr size_t kKeptBoxes = 1024;
// A worker is sent so many predecessors; a task with more waits in this process.
constexpr size_t kFollowsMost = 1024;
constexpr size_t kMessageMost = 1 << 16;  // bytes

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string message_of(const HostTaskSpec& spec, const HostMember& member, const char* heap) {
  std::string bytes;
  TaskMessage head{};
  head.head = {MessageKind::Task, spec.program};
  head.tensors = uint32_t(member.tensors.size());
  head.scalars = uint32_t(member.scalars.size());
  append(bytes, head);
  for (const HostTensor& tensor : member.tensors) {
    const pto_tensor& view = tensor.view;
    const auto flags =
        uint16_t((is_contiguous(view.rank, view.sizes, view.strides) ? PTO_TENSOR_CONTIGUOUS : 0) |
                 (tensor.access == Access::Read ? PTO_TENSOR_READ_ONLY : 0));
    const char* const data = static_cast<const char*>(view.data);
    append(bytes, TensorMessage{data - heap, tensor.block->data() + tensor.block->bytes() - data,
                                view.rank, view.type_code, view.type_bits, flags});
    const size_t dims = size_t(view.rank) * sizeof(int64_t);
    bytes.append(reinterpret_cast<const char*>(view.sizes), dims);
    bytes.append(reinterpret_cast<const char*>(view.strides), dims);
  }
  for (uint64_t scalar : member.scalars.bits()) append(bytes, scalar);
  for (size_t i = 0; i < member.scalars.size(); ++i) append(bytes, member.scalars.kind(i));
  if (bytes.size() > kMessageMost)
    fail({"a task of " + std::to_string(member.tensors.size()) + " tensors and " +
              std::to_string(member.scalars.size()) + " scalars",
          "what a worker is told of them takes " + text_bytes(int64_t(bytes.size())) +
              ", at most " + text_bytes(kMessageMost),
          "pass fewer, larger tensors"});
  return bytes;
}

}  // namespace

HostEngine::HostEngine(const HostOptions& options) : state_(std::make_unique<State>(options)) {}
HostEngine::~HostEngine() {
  if (getpid() == state_->process_)
    close();
  else
    (void)state_.release();  // in a fork: the workers belong to the parent
}

const std::shared_ptr<SharedHeap>& HostEngine::heap() const { return state_->heap_; }

uint32_t HostEngine::add_program(const ProgramImage& image) {
  const std::string bytes = to_bytes(image);
  std::shared_ptr<SharedBlock> block = state_->heap_->allocate(int64_t(bytes.size()));
  std::memcpy(block->data(), bytes.data(), bytes.size());
  const std::lock_guard lock(state_->mutex_);
  const uint32_t program = ++state_->last_program_;
  state_->programs_[program] = {std::move(block), int64_t(bytes.size()),
                                image.kind == ProgramKind::Python};
  return program;
}

void HostEngine::remove_program(uint32_t program) {
  const State::Lock lock(state_->mutex_);
  if (state_->programs_.erase(program) == 0) return;
  for (const auto& worker : state_->workers_) {
    if (worker->loaded.erase(program) == 0 || worker->mailbox == nullptr) continue;
    char* const record = worker->mailbox->to_worker().begin_write(sizeof(MessageHead));
    if (record == nullptr) continue;  // the worker keeps the code, which costs only memory
    const MessageHead message{MessageKind::Forget, program};
    std::memcpy(record, &message, sizeof message);
    worker->mailbox->to_worker().end_write();
    worker->mailbox->ring_worker();
  }
}

// --- a run ---------------------------------------------------------------------------------------

void HostEngine::begin_run(const HostRunOptions& options) {
  State& state = *state_;
  if (options.window < 2 || (options.window & (options.window - 1)) != 0)
    fail({"a window of " + std::to_string(options.window) + " tasks",
          "the window is a power of two, at least 2", "pass 4096, for example"});
  const State::Lock lock(state.mutex_);
  PTO_ASSERT(!state.is_running_ && !state.is_closing_);
  if (state.slots_.size() != size_t(options.window))
    state.slots_ = std::vector<HostTask>(size_t(options.window));
  for (const auto& worker : state.workers_) {
    worker->broken.clear();
    worker->early_ends = 0;
  }
  state.is_running_ = true;
  state.is_stopped_ = state.is_ending_ = false;
  state.first_ = state.last_ + 1;
  ++state.run_;
  state.report_ = {};
  state.failures_.clear();
  state.causes_.clear();
  state.trace_ = options.trace;
  if (state.trace_ != nullptr) state.begin_trace();
  state.deadline_s_ = options.deadline_s;
  state.deadline_ns_ =
      options.deadline_s > 0 ? uint64_t(now_ns()) + uint64_t(options.deadline_s * 1e9) : 0;
  if (state.deadline_ns_ != 0) state.wake_attendant();
}

void HostEngine::State::check(const HostTaskSpec& spec) const {
  if (spec.gate == nullptr && programs_.find(spec.program) == programs_.end())
    fail({"program " + std::to_string(spec.program) + " does not exist",
          "add_program() numbers them, remove_program() ends them", "submit one that exists"});
  if ((spec.gate == nullptr) == spec.members.empty())
    fail({"a task of " + std::to_string(spec.members.size()) + " members",
          "a task runs on a device, a group on several", "name at least one device"});
  for (size_t i = 0; i < spec.members.size(); ++i) {
    const int device = spec.members[i].device;
    if (device < 0 || device >= int(options_.devices.size()))
      fail({"device " + std::to_string(device) + " of " + std::to_string(options_.devices.size()),
            "members name a device by its place among the runtime's", "pass one that exists"},
           ErrorKind::Index);
    for (size_t j = 0; j < i; ++j)
      if (spec.members[j].device == device)
        fail({"device " + std::to_string(device) + " comes twice in a group",
              "all members run at once, and a device runs one task at a time",
              "name each device once"});
  }
  for (TaskId after : spec.after)
    if (after == 0 || after > last_ || after < first_)
      fail({"task " + std::to_string(after) + " is none of this run's " +
                std::to_string(last_ + 1 - first_),
            "after= names tasks that were submitted before, in this run", "pass their ids"});
}

TaskId HostEngine::submit(const HostTaskSpec& spec) {
  State& state = *state_;
  State::Lock lock(state.mutex_);
  PTO_ASSERT(state.is_running_);
  state.check(spec);
  state.take_answers();
  HostTask& task = state.claim_slot(lock);
  const uint64_t start_ns = state.traces(kSubmissions) ? uint64_t(now_ns()) : 0;
  if (state.is_stopped_) state.throw_first_failure();
  task.id = ++state.last_;
  try {
    state.fill(task, spec);
    for (const HostMember& member : spec.members)
      for (const HostTensor& tensor : member.tensors) state.follow_tensor(task, tensor);
    for (const HostTensor& tensor : spec.gate_holds) task.holds.push_back(tensor.block);
    for (TaskId after : spec.after) state.follow(task, after, EdgeCause::After);
  } catch (...) {
    state.give_up(task);
    throw;
  }
  ++state.report_.tasks;
  if (state.traces(kSubmissions)) state.note_submission(task, start_ns);
  const TaskId id = task.id;
  if (--task.pending == 0) {
    state.enqueue(task);
  } else {
    ++state.waiting_tasks_;
  }
  if (state.awaits_answers() || state.awaits_room()) {
    state.want_bells();
    if (state.has_answers()) state.take_answers();
  }
  return id;
}

// The histories may be incomplete after an error, so nothing new may begin; this task still ends.
void HostEngine::State::give_up(HostTask& task) {
  if (task.stage != HostTask::Stage::Waiting) return;
  stop_run("a submission ended with an error", false);
  finish(task);
}

// Waits until the oldest task that can be in flight is done, and returns its slot.
HostTask& HostEngine::State::claim_slot(Lock& lock) {
  HostTask& task = slot(last_ + 1);
  drive_until(lock, [&] {
    return task.stage == HostTask::Stage::Free || task.stage == HostTask::Stage::Done;
  });
  return task;
}

void HostEngine::State::fill(HostTask& task, const HostTaskSpec& spec) {
  task.program = spec.program;
  task.name = spec.name;
  task.site = spec.site;
  task.pending = 1;
  task.cause = -1;
  task.deaths = 0;
  task.successors.clear();
  task.follows.clear();
  task.holds.clear();
  task.parts.clear();
  task.gate.reset();
  if (spec.gate != nullptr) task.gate = *spec.gate;
  const bool is_python = spec.gate == nullptr && programs_.at(spec.program).is_python;
  for (const HostMember& member : spec.members)
    task.parts.push_back(
        {&worker_for(member.device, is_python), message_of(spec, member, heap_->region().data())});
  task.parts_left = int32_t(task.parts.size());
  for (HostTask::Part& part : task.parts) {
    auto* const head = reinterpret_cast<TaskMessage*>(part.message.data());
    head->task = task.id;
    head->run = run_;
    head->is_timed = trace_ != nullptr;
    head->deadline_s = double(deadline_ns_) * 1e-9;
  }
  if (trace_ != nullptr) name_for_trace(task);
  task.stage = HostTask::Stage::Waiting;
  ++unfinished_;
}

void HostEngine::State::follow_tensor(HostTask& task, const HostTensor& tensor) {
  std::unique_ptr<Memory>& memory = memory_[tensor.block.get()];
  if (memory == nullptr) memory = std::make_unique<Memory>(Memory{tensor.block, {}});
  const auto rank = size_t(tensor.view.rank);
  const Box box = make_box(static_cast<char*>(tensor.view.data) - tensor.block->data(),
                           {tensor.view.sizes, rank}, {tensor.view.strides, rank},
                           std::max(1, tensor.view.type_bits / 8));
  const EdgeCause cause = tensor.access == Access::Write ? EdgeCause::Storage : EdgeCause::Data;
  memory->history.record(
      box, tensor.access, task.id,
      [&](TaskId earlier) {
        if (earlier != task.id) follow(task, earlier, cause);
      },
      [&](TaskId earlier) { return is_settled(earlier); });
  task.holds.push_back(tensor.block);
}

void HostEngine::State::follow(HostTask& task, TaskId earlier, EdgeCause cause) {
  if (earlier < first_) return;
  if (const auto cause = causes_.find(earlier); cause != causes_.end() && task.cause < 0)
    task.cause = cause->second;
  HostTask& before = slot(earlier);
  if (before.id != earlier || before.stage == HostTask::Stage::Done) return;
  if (!before.successors.empty() && before.successors.back().id == task.id) return;
  ++report_.edges;
  if (traces(kEdges)) trace_->edges.push_back({earlier, task.id, cause});
  const bool stands_behind = before.stage == HostTask::Stage::Queued && before.parts.size() == 1 &&
                             task.parts.size() == 1 &&
                             before.parts[0].worker == task.parts[0].worker &&
                             task.follows.size() < kFollowsMost;
  before.successors.push_back({&task, task.id, stands_behind});
  if (stands_behind)
    task.follows.push_back(earlier);
  else
    ++task.pending;
}

// Queues a task whose predecessors are all done or stand in the same queue before it.
void HostEngine::State::enqueue(HostTask& task) {
  task.ready_ns = trace_ != nullptr ? uint64_t(now_ns()) : 0;
  if (task.gate) {
    gates_.push_back(&task);
    task.stage = HostTask::Stage::Queued;
    look_at_gates();
    return;
  }
  if (task.cause >= 0) return finish(task);
  task.stage = HostTask::Stage::Queued;
  for (HostTask::Part& part : task.parts) part.worker->queue.push_back(&task);
  queued_tasks_ += int64_t(task.parts.size());
  if (task.parts.size() == 1)
    for (HostTask::Successor& next : task.successors) {
      HostTask& to = *next.task;
      if (next.is_released || to.id != next.id || to.follows.size() >= kFollowsMost ||
          to.parts.size() != 1 || to.parts[0].worker != task.parts[0].worker)
        continue;
      next.is_released = true;
      to.follows.push_back(task.id);
      if (--to.pending == 0) {
        --waiting_tasks_;
        enqueue(to);
      }
    }
  for (HostTask::Part& part : task.parts) pump(*part.worker);
}

// --- waiting -------------------------------------------------------------------------------------

// Takes answers until the condition holds: first it polls, then it sleeps until the attendant wakes
// it.
template <class Condition>
bool HostEngine::State::drive_until(Lock& lock, const Condition& condition, uint64_t until_ns) {
  const auto is_met = [&] {
    take_answers();
    return condition();
  };
  while (!is_met()) {
    lock.unlock();
    const uint64_t end = uint64_t(now_ns()) + uint64_t(spin_us_) * 1000;
    while (!has_answers() && uint64_t(now_ns()) < end) pause_core();
    lock.lock();
    if (is_met()) return true;
    if (has_answers()) continue;
    const uint64_t now = uint64_t(now_ns());
    if (now >= until_ns) return false;
    ++waiters_;
    want_bells();
    if (!has_answers()) changed_.wait_for(lock, std::chrono::nanoseconds(until_ns - now));
    --waiters_;
  }
  return true;
}

bool HostEngine::wait_some_time(TaskId id, double seconds) {
  State::Lock lock(state_->mutex_);
  const uint64_t until = uint64_t(now_ns()) + uint64_t(seconds * 1e9);
  HostTask& task = state_->slot(id);
  return state_->drive_until(
      lock, [&] { return task.id != id || task.stage == HostTask::Stage::Done; }, until);
}

bool HostEngine::wait_some_time(double seconds) {
  State::Lock lock(state_->mutex_);
  const uint64_t until = uint64_t(now_ns()) + uint64_t(seconds * 1e9);
  state_->is_ending_ = true;
  state_->look_at_gates();
  return state_->drive_until(
      lock, [&] { return state_->unfinished_ == 0; }, until);
}

bool HostEngine::wait_for(TaskId id) {
  State::Lock lock(state_->mutex_);
  HostTask& task = state_->slot(id);
  state_->drive_until(lock, [&] { return task.id != id || task.stage == HostTask::Stage::Done; });
  if (state_->is_stopped_) state_->throw_first_failure();
  return state_->has_succeeded(id);
}

bool HostEngine::is_done(TaskId id) {
  const State::Lock lock(state_->mutex_);
  if (state_->is_running_) state_->take_answers();
  const HostTask& task = state_->slot(id);
  return task.id != id || task.stage == HostTask::Stage::Done;
}

bool HostEngine::has_succeeded(TaskId id) {
  const State::Lock lock(state_->mutex_);
  return state_->has_succeeded(id);
}

std::vector<TaskId> HostEngine::writers_of(const HostTensor& tensor) {
  std::vector<TaskId> writers;
  {
    const State::Lock lock(state_->mutex_);
    const auto memory = state_->memory_.find(tensor.block.get());
    if (memory == state_->memory_.end()) return writers;
    const auto rank = size_t(tensor.view.rank);
    memory->second->history.writers(
        make_box(static_cast<char*>(tensor.view.data) - tensor.block->data(),
                 {tensor.view.sizes, rank}, {tensor.view.strides, rank},
                 std::max(1, tensor.view.type_bits / 8)),
        [&](TaskId id) {
          if (id >= state_->first_) writers.push_back(id);
        });
  }
  return writers;
}

bool HostEngine::wait_for(const HostTensor& tensor) {
  bool has_succeeded = true;
  for (TaskId id : writers_of(tensor)) has_succeeded &= wait_for(id);
  return has_succeeded;
}

// --- the end -------------------------------------------------------------------------------------

HostReport HostEngine::end_run() {
  State& state = *state_;
  State::Lock lock(state.mutex_);
  PTO_ASSERT(state.is_running_);
  state.is_ending_ = true;
  state.look_at_gates();
  state.drive_until(lock, [&] { return state.unfinished_ == 0; });
  state.is_running_ = false;
  state.deadline_ns_ = 0;
  if (state.trace_ != nullptr) state.end_trace();
  for (const auto& [block, memory] : state.memory_)
    state.report_.unknown_overlaps += memory->history.unknown_overlaps();
  std::erase_if(state.memory_, [](const auto& one) {
    return one.second->block.use_count() == 1 || one.second->history.boxes() > kKeptBoxes;
  });
  state.retired_.clear();
  if (!state.failures_.empty()) state.throw_first_failure();
  return state.report_;
}

void HostEngine::State::throw_first_failure() {
  HostFailure first = failures_.front();
  first.others = std::max<int64_t>(0, int64_t(causes_.size()) - (first.task != 0 ? 1 : 0));
  const std::string followers =
      first.others == 0
          ? "no other task followed it"
          : std::to_string(first.others) + " tasks follow it or failed too, and did not run";
  if (first.task == 0)
    throw HostError({"the run was stopped: " + first.text,
                     first.others == 0 ? "every task had ended"
                                       : std::to_string(first.others) + " tasks did not run",
                     "mend the cause; the runtime can be used again"},
                    first);
  throw HostError({"task " + std::to_string(first.task) + " (" + first.name + ")" +
                       (first.site.empty() ? "" : ", submitted at " + first.site) + ", failed" +
                       (first.device >= 0
                            ? " on device " + std::to_string(options_.devices[size_t(first.device)])
                            : "") +
                       ": " + first.text,
                   followers, "mend the cause; the runtime can be used again"},
                  first);
}

bool HostEngine::is_running() const {
  const State::Lock lock(state_->mutex_);
  return state_->is_running_;
}

void HostEngine::stop(const std::string& text, bool kills) {
  const State::Lock lock(state_->mutex_);
  if (state_->is_running_) state_->stop_run(text, kills);
}

std::vector<WorkerState> HostEngine::workers() const {
  const State::Lock lock(state_->mutex_);
  std::vector<WorkerState> result;
  for (const auto& worker : state_->workers_)
    if (worker->is_running())
      result.push_back({worker->device, worker->process->pid(), worker->starts});
  return result;
}

// --- trace ---------------------------------------------------------------------------------------

void HostEngine::State::begin_trace() {
  RunTrace fresh;
  fresh.level = trace_->level;
  fresh.is_bound = true;
  fresh.sites.push_back("");
  fresh.kernels.push_back("(none)");
  fresh.workers = int(options_.devices.size());
  *trace_ = std::move(fresh);
  traced_kernels_.clear();
  traced_sites_.clear();
  trace_start_ns_ = uint64_t(now_ns());
}

void HostEngine::State::name_for_trace(HostTask& task) {
  const auto kernel = traced_kernels_.try_emplace(task.name, uint16_t(trace_->kernels.size()));
  if (kernel.second) trace_->kernels.push_back(task.name);
  task.kernel_number = kernel.first->second;
  task.site_number = 0;
  if (task.site.empty()) return;
  const auto site = traced_sites_.try_emplace(task.site, uint32_t(trace_->sites.size()));
  if (site.second) trace_->sites.push_back(task.site);
  task.site_number = site.first->second;
}

void HostEngine::State::note_submission(const HostTask& task, uint64_t start_ns) {
  TraceSubmission submission{};
  submission.task = task.id;
  submission.start_ns = start_ns - trace_start_ns_;
  submission.cost_ns = uint32_t(uint64_t(now_ns()) - start_ns);
  submission.kernel = task.kernel_number;
  submission.blocks = 1;
  submission.site = task.site_number;
  trace_->submissions.push_back(std::move(submission));
}

void HostEngine::State::end_trace() {
  trace_->duration_ns = uint64_t(now_ns()) - trace_start_ns_;
  sort_trace(*trace_);
}

}  // namespace pto
