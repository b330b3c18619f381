// SPDX-License-Identifier: Apache-2.0
// The submitting thread's side of the host engine: programs, tasks, waiting, the end of a run.
#include "pto/tasks/processes/host_engine.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "pto/base/clock.hpp"
#include "pto/base/machine.hpp"
#include "pto/base/strided.hpp"
#include "pto/tasks/processes/host_state.hpp"
#include "pto/tasks/processes/serve.hpp"

namespace pto {
namespace {

// The most boxes that a block's history keeps after a run without failures; a larger one starts
// again empty.
constexpr size_t kKeptBoxes = 1024;
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

Box box_of(const HostTensor& tensor) { return pto::box_of(tensor.view, tensor.block->data()); }

}  // namespace

HostEngine::HostEngine(const HostOptions& options) : state_(std::make_unique<State>(options)) {}
HostEngine::~HostEngine() {
  if (state_->heap_->is_of_this_process())
    close();
  else
    (void)state_.release();  // a fork's copy
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
  if (!state_->heap_->is_of_this_process()) return;
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

uint64_t HostEngine::begin_run(const HostRunOptions& options) {
  State& state = *state_;
  const State::Lock lock(state.mutex_);
  PTO_ASSERT(!state.is_closing_);
  state.book_.begin_run(options.window, options.deadline_s, options.trace != nullptr);
  state.tasks_.resize(state.book_.window());
  ++state.run_;
  state.trace_ = options.trace;
  if (state.trace_ != nullptr) state.begin_trace();
  return state.run_;
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
  for (TaskId after : spec.after) check_after(after, book_.first(), book_.last());
}

TaskId HostEngine::submit(const HostTaskSpec& spec) {
  State& state = *state_;
  TaskBook& book = state.book_;
  State::Lock lock(state.mutex_);
  PTO_ASSERT(book.is_running());
  state.check(spec);
  state.drive_until(lock, [&] { return book.has_room(); });
  const uint64_t start_ns = state.traces(kSubmissions) ? state.now_ns() : 0;
  if (book.is_stopped()) state.throw_first_failure();
  HostTask& own = state.tasks_[book.place_of(book.last() + 1)];
  state.prepare(own, spec);
  BookTask& task = book.open(spec.name, spec.site);
  try {
    state.enter(task, own, spec);
  } catch (...) {
    book.give_up(task);
    throw;
  }
  if (state.traces(kSubmissions)) state.note_submission(task, start_ns);
  const TaskId id = task.id;
  book.release(task);
  if (state.awaits_answers() || book.awaits_room()) {
    state.want_bells();
    if (state.has_answers()) state.take_answers();
  }
  return id;
}

// Does what may be refused: it writes the messages, and starts the workers.
void HostEngine::State::prepare(HostTask& own, const HostTaskSpec& spec) {
  own.program = spec.program;
  own.messages.clear();
  own.holds.clear();
  own.gate.reset();
  if (spec.gate != nullptr) own.gate = *spec.gate;
  for (const HostMember& member : spec.members)
    own.messages.push_back(message_of(spec, member, heap_->region().data()));
  for (const HostMember& member : spec.members)
    start_if_ended(number_of(member.device, programs_.at(spec.program).is_python));
}

void HostEngine::State::enter(BookTask& task, HostTask& own, const HostTaskSpec& spec) {
  for (const HostMember& member : spec.members)
    task.parts.push_back({number_of(member.device, programs_.at(spec.program).is_python)});
  for (std::string& message : own.messages) {
    auto* const head = reinterpret_cast<TaskMessage*>(message.data());
    head->task = task.id;
    head->run = run_;
    head->is_timed = trace_ != nullptr;
    head->deadline_s = double(book_.deadline_ns()) * 1e-9;
  }
  if (trace_ != nullptr) name_for_trace(task);
  for (const HostMember& member : spec.members)
    for (const HostTensor& tensor : member.tensors) follow_tensor(task, tensor);
  for (const HostTensor& tensor : spec.gate_holds) own.holds.push_back(tensor.block);
  for (TaskId after : spec.after) follow(task, after, EdgeCause::After);
}

void HostEngine::State::follow_tensor(BookTask& task, const HostTensor& tensor) {
  of(task).holds.push_back(tensor.block);
  std::unique_ptr<Memory>& memory = memory_[tensor.block.get()];
  if (memory == nullptr) memory = std::make_unique<Memory>(Memory{tensor.block, {}});
  if (traces(kRecords) && memory->traced < book_.first()) {
    memory->traced = task.id;
    heap_->note_first_task(*tensor.block, task.id, of(task).site_number);
  }
  const EdgeCause cause = cause_of(tensor.access);
  memory->history.record(
      box_of(tensor), tensor.access, task.id, [&](TaskId earlier) { follow(task, earlier, cause); },
      [&](TaskId earlier) { return !traces(kEdges) && book_.is_settled(earlier); });
}

// A trace also has edges from finished tasks: in another run they may not be finished yet.
void HostEngine::State::follow(BookTask& task, TaskId earlier, EdgeCause cause) {
  book_.follow(task, earlier);
  if (traces(kEdges) && earlier >= book_.first() && earlier != task.id)
    trace_->edges.push_back({earlier, task.id, cause});
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

HostEngine& HostEngine::await(TaskId id) {
  const State::Lock lock(state_->mutex_);
  state_->book_.await(id);
  return *this;
}

bool HostEngine::wait_some_time(TaskId id, double seconds) {
  State::Lock lock(state_->mutex_);
  const uint64_t until = state_->now_ns() + uint64_t(span_ns(seconds));
  return state_->drive_until(
      lock, [&] { return state_->book_.is_done(id); }, until);
}

bool HostEngine::wait_some_time(double seconds) {
  State::Lock lock(state_->mutex_);
  const uint64_t until = state_->now_ns() + uint64_t(span_ns(seconds));
  state_->book_.begin_end();
  return state_->drive_until(
      lock, [&] { return state_->book_.unfinished() == 0; }, until);
}

bool HostEngine::wait_for(TaskId id) {
  State::Lock lock(state_->mutex_);
  TaskBook& book = state_->book_;
  state_->drive_until(lock, [&] { return book.is_done(id); });
  if (book.is_running() && book.is_stopped()) state_->throw_first_failure();
  return state_->book_.has_succeeded(id);
}

bool HostEngine::is_done(TaskId id) {
  const State::Lock lock(state_->mutex_);
  if (state_->book_.is_running()) state_->take_answers();
  return state_->book_.is_done(id);
}

bool HostEngine::has_succeeded(TaskId id) {
  const State::Lock lock(state_->mutex_);
  return state_->book_.has_succeeded(id);
}

std::vector<TaskId> HostEngine::writers_of(const HostTensor& tensor) {
  std::vector<TaskId> writers;
  {
    const State::Lock lock(state_->mutex_);
    const auto memory = state_->memory_.find(tensor.block.get());
    if (memory == state_->memory_.end()) return writers;
    memory->second->history.writers(box_of(tensor), [&](TaskId id) {
      if (id >= state_->book_.first()) writers.push_back(id);
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
  TaskBook& book = state.book_;
  State::Lock lock(state.mutex_);
  PTO_ASSERT(book.is_running());
  book.begin_end();
  state.drive_until(lock, [&] { return book.unfinished() == 0; });
  book.end_run();
  if (state.trace_ != nullptr) state.trace_->duration_ns = state.now_ns() - state.trace_start_ns_;
  HostReport report{book.tasks(), book.edges(), 0, book.replaced_workers()};
  for (const auto& [block, memory] : state.memory_)
    report.unknown_overlaps += memory->history.unknown_overlaps();
  const bool has_failed = !book.failures().is_empty();  // which writers, wait_for() may be asked
  std::erase_if(state.memory_, [&](const auto& one) {
    return one.second->block.use_count() == 1 ||
           (!has_failed && one.second->history.boxes() > kKeptBoxes);
  });
  state.retired_.clear();
  if (state.trace_ != nullptr) state.end_trace();  // what the run held is freed
  if (has_failed) state.throw_first_failure();
  return report;
}

bool HostEngine::is_running() const {
  const State::Lock lock(state_->mutex_);
  return state_->book_.is_running();
}

bool HostEngine::stop(const std::string& text, bool kills, uint64_t run) {
  const State::Lock lock(state_->mutex_);
  if (!state_->book_.is_running() || (run != 0 && run != state_->run_)) return false;
  state_->book_.stop(text, kills);
  return true;
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
  pto::begin_trace(*trace_, int(options_.devices.size()), false);
  trace_->is_bound = true;
  traced_kernels_ = {};
  traced_sites_ = {};
  trace_start_ns_ = uint64_t(now_ns());
  if (traces(kRecords)) heap_->begin_trace(trace_->capacity, trace_start_ns_);
}

void HostEngine::State::name_for_trace(const BookTask& task) {
  HostTask& own = of(task);
  own.kernel_number =
      uint16_t(traced_kernels_.number(task.name, trace_->kernels, [&] { return task.name; }));
  own.site_number =
      task.site.empty()
          ? 0
          : uint32_t(traced_sites_.number(task.site, trace_->sites, [&] { return task.site; }));
}

void HostEngine::State::note_submission(const BookTask& task, uint64_t start_ns) {
  const HostTask& own = of(task);
  TraceSubmission submission{};
  submission.task = task.id;
  submission.start_ns = start_ns - trace_start_ns_;
  submission.cost_ns = uint32_t(uint64_t(now_ns()) - start_ns);
  submission.kernel = own.kernel_number;
  submission.blocks = 1;
  submission.site = own.site_number;
  trace_->submissions.push_back(std::move(submission));
}

void HostEngine::State::end_trace() {
  if (traces(kRecords)) heap_->end_trace(*trace_);
  trace_->failures = book_.failures().all();
  sort_trace(*trace_);
}

}  // namespace pto
