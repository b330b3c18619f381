// SPDX-License-Identifier: Apache-2.0
// The orchestrating thread's side of a run: it submits and waits.
#include <algorithm>
#include <new>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/run_state.hpp"

namespace pto {
namespace {

// The number of ready tasks that the orchestrating thread leaves to others before it runs one.
constexpr int64_t kFarAhead = 128;
// The most blocks of a task: their counters count workers too.
constexpr int32_t kBlocksMost = 1 << 28;
// The number of tasks after which the thread looks again which of them are done.
constexpr TaskId kRetireEvery = 64;

}  // namespace

// Advances retired_ over tasks that are done: no later task needs an edge from them.
void Engine::retire() {
  TaskId done = retired_;
  while (done < last_ && (slot(done + 1).id != done + 1 || slot(done + 1).is_done())) ++done;
  if (!has_failed_.load(std::memory_order_acquire)) retired_ = done;
}

Task& Engine::claim_slot() {
  Task& task = slot(last_ + 1);
  if (!is_alone()) {
    if (task.id != 0 && !task.is_done()) help_until(task);
    if (submitter_->ready.has(kFarAhead))
      while (submitter_->ready.has(kFarAhead / 2))
        if (Task* ready = submitter_->ready.pop()) run_chain(*submitter_, ready);
    if (last_ % kRetireEvery == 0) retire();
    slot(last_ + 3).fetch_to_write();
  }
  task.id = ++last_;
  task.pending.store(1, std::memory_order_relaxed);
  task.cause.store(-1, std::memory_order_relaxed);
  task.successors.store(nullptr, std::memory_order_relaxed);
  task.n_edges = task.n_holds = task.n_turns = task.turns_taken = 0;
  return task;
}

void check_submission(const TaskSpec& spec, TaskId last) {
  if (spec.blocks < 1 || spec.blocks > kBlocksMost)
    fail({"a task of " + std::to_string(spec.blocks) + " blocks",
          "a task runs its kernel once a block, at least once, at most " +
              std::to_string(kBlocksMost) + " times",
          "pass a count of blocks, and let each do more"});
  for (TaskId id : spec.after) check_after(id, 1, last);
  for (const TaskTensor& tensor : spec.tensors) {
    if (tensor.view.rank > PTO_MAX_RANK)
      fail({"a tensor of " + std::to_string(tensor.view.rank) + " dimensions",
            "tensors of tasks have at most " + std::to_string(PTO_MAX_RANK), "reshape it"});
    if (tensor.allocation->users.load(std::memory_order_relaxed) <= 0)
      fail({"a task uses a tensor that its scope has let go of",
            "memory of a scope is freed when its tasks are done", "submit inside the scope"});
  }
}

// Says whether no task needs to follow this one any more.
bool Engine::is_done(TaskId id) {
  if (id <= retired_) return true;
  Task& task = slot(id);
  if (task.id == id && !task.is_done()) return false;
  return !has_failed_.load(std::memory_order_acquire);  // set before a failed task is done
}

void Engine::follow(Task& task, TaskId earlier) {
  if (earlier == task.id) return;
  if (traces(kEdges)) trace_->edges.push_back({earlier, task.id, cause_});
  ++report_.edges;
  if (earlier <= retired_) return;
  Task& other = slot(earlier);
  if (other.id == earlier) {
    TaskEdge* head = other.successors.load(std::memory_order_acquire);
    if (head != nullptr && head->to == &task) return;
    TaskEdge* edge = nullptr;
    while (head != &kClosed) {
      if (edge == nullptr) {
        edge = task.new_edge(&task);
        task.pending.fetch_add(1, std::memory_order_relaxed);
      }
      edge->next = head;
      at(Step::Link, &other);
      if (other.successors.compare_exchange_weak(head, edge, std::memory_order_acq_rel)) return;
    }
    if (edge != nullptr) task.pending.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!has_failed_.load(std::memory_order_acquire)) return;  // the other is done and did not fail
  const std::lock_guard lock(failures_mutex_);
  if (const int32_t cause = failures_.cause_of(earlier); cause >= 0)
    task.cause.store(cause, std::memory_order_relaxed);
}

void Engine::follow_tensor(Task& task, const TaskTensor& tensor) {
  if (!tensor.is_tracked) return;
  Allocation& allocation = *tensor.allocation;
  cause_ = cause_of(tensor.access);
  const int64_t box = allocation.history.record(
      box_of(tensor), tensor.access, task.id, [&](TaskId earlier) { follow(task, earlier); },
      // A trace also records edges from finished tasks: in another run they may not be finished
      // yet.
      [&](TaskId earlier) { return !traces(kEdges) && is_done(earlier); });
  if (box < 0 || (is_alone() && !traces(kEdges))) return;
  ReduceTurn& turn = allocation.turns[box];
  if (turn.number == 0) turn.number = ++turns_made_;
  if (traces(kEdges)) trace_->turns.emplace_back(task.id, turn.number);
  if (!is_alone()) task.turns()[task.n_turns++] = &turn;
}

namespace {

bool same_dims(const pto_tensor& a, const pto_tensor& b) {
  if (a.rank != b.rank) return false;
  for (int32_t k = 0; k < a.rank; ++k)
    if (a.sizes[k] != b.sizes[k] || a.strides[k] != b.strides[k]) return false;
  return true;
}

template <class F>
void each_tensor(const TaskSpec& spec, const F& f) {
  for (const TaskTensor& tensor : spec.tensors) f(tensor);
  if (spec.predicate_tensor != nullptr) f(*spec.predicate_tensor);
}

// Tensors of one shape and stride share their dims.
bool shares_dims(const TaskSpec& spec, size_t i) {
  return i > 0 && same_dims(spec.tensors[i].view, spec.tensors[i - 1].view);
}

}  // namespace

// Copies what the kernel gets into the task's memory. A lone worker copies no more: the task ends
// before its submission does.
void Engine::fill(Task& task, const TaskSpec& spec) {
  const size_t n = spec.tensors.size();
  const Kept kept = is_alone() ? Kept{} : kept_of(spec);
  task.take_memory(n * sizeof(pto_tensor) + spec.scalars.size_bytes() + kept.bytes());
  task.n_tensors = int32_t(n);
  task.n_scalars = int32_t(spec.scalars.size());
  pto_tensor* const tensors = task.tensors();
  for (size_t i = 0; i < n; ++i) tensors[i] = spec.tensors[i].view;
  std::copy(spec.scalars.begin(), spec.scalars.end(), task.scalars());
  task.predicate = spec.predicate;
  task.kernel = spec.kernel;
  task.together = spec.start_together && spec.blocks > 1 ? spec.blocks : 0;
  task.blocks = task.together > 0 ? 1 : spec.blocks;
  task.file = spec.file;
  task.line = spec.line;
  if (trace_ != nullptr) name_for_trace(task, spec);
  if (traces(kRecords)) note_first_task(task, spec);
  if (!is_alone()) keep(task, spec, kept);
}

Engine::Kept Engine::kept_of(const TaskSpec& spec) {
  Kept kept;
  each_tensor(spec, [&](const TaskTensor& tensor) {
    kept.holds += tensor.allocation->is_owned;
    kept.turns += tensor.access == Access::Reduce;
  });
  for (size_t i = 0; i < spec.tensors.size(); ++i)
    if (!shares_dims(spec, i)) kept.dims += 2 * spec.tensors[i].view.rank;
  kept.predicates = spec.predicate != nullptr;
  return kept;
}

void Engine::keep(Task& task, const TaskSpec& spec, const Kept& kept) {
  task.next_block.store(0, std::memory_order_relaxed);
  task.blocks_left.store(task.blocks + entries_of(task), std::memory_order_relaxed);
  task.n_holds = kept.holds;
  Allocation** hold = task.holds();
  each_tensor(spec, [&](const TaskTensor& tensor) {
    if (!tensor.allocation->is_owned) return;
    tensor.allocation->users.fetch_add(1, std::memory_order_relaxed);
    *hold++ = tensor.allocation;
  });
  auto* dims = reinterpret_cast<int64_t*>(task.turns() + kept.turns);
  for (size_t i = 0; i < spec.tensors.size(); ++i) {
    pto_tensor& tensor = task.tensors()[i];
    if (shares_dims(spec, i)) {
      tensor.sizes = task.tensors()[i - 1].sizes;
      tensor.strides = task.tensors()[i - 1].strides;
      continue;
    }
    const int64_t* const sizes = dims;
    const int64_t* const strides = dims = std::copy_n(tensor.sizes, tensor.rank, dims);
    dims = std::copy_n(tensor.strides, tensor.rank, dims);
    tensor.sizes = sizes;
    tensor.strides = strides;
  }
  if (spec.predicate != nullptr) task.predicate = new (dims) Predicate(*spec.predicate);
}

void Engine::enter(Task& task, const TaskSpec& spec) {
  each_tensor(spec, [&](const TaskTensor& tensor) { follow_tensor(task, tensor); });
  cause_ = EdgeCause::After;
  for (TaskId id : spec.after) follow(task, id);
  if (task.n_turns < 2) return;
  ReduceTurn** const turns = task.turns();
  std::sort(turns, turns + task.n_turns,
            [](const ReduceTurn* a, const ReduceTurn* b) { return a->number < b->number; });
  task.n_turns = int32_t(std::unique(turns, turns + task.n_turns) - turns);
}

TaskId Engine::submit(const TaskSpec& spec) {
  check_submission(spec, last_);
  const uint64_t start = traces(kSubmissions) ? ticks() : 0;
  Task& task = claim_slot();
  const uint64_t claimed = traces(kSubmissions) ? ticks() : 0;
  const TaskId id = task.id;
  ++report_.tasks;
  try {
    fill(task, spec);
    enter(task, spec);
  } catch (...) {
    give_up(task);
    throw;
  }
  release(task);
  if (traces(kSubmissions)) note_submission(start, claimed);
  return id;
}

// The histories may be incomplete after an error, so nothing new may start; this task still ends.
void Engine::give_up(Task& task) {
  error_ = std::current_exception();
  is_stopped_.store(true);
  task.kernel = nullptr;
  task.predicate = nullptr;
  task.blocks = 1;
  task.together = task.n_turns = 0;
  release(task);
}

// Ends the submission of the task: it runs once its predecessors are done.
void Engine::release(Task& task) {
  if (is_alone()) return run_at_once(task);
  at(Step::Submitted, &task);
  if (task.pending.load(std::memory_order_acquire) > 1 &&
      task.pending.fetch_sub(1, std::memory_order_acq_rel) > 1)
    return;
  if (task.blocks == 1 && steps_ == nullptr && are_short_.load(std::memory_order_relaxed))
    run_here(task);
  else
    make_ready(*submitter_, &task, nullptr);
}

bool Engine::wait_for(const TaskTensor& tensor) try {
  std::vector<TaskId> writers;
  tensor.allocation->history.writers(box_of(tensor), [&](TaskId id) { writers.push_back(id); });
  const uint64_t start = traces(kSubmissions) ? ticks() : 0;
  for (TaskId id : writers)
    if (Task& task = slot(id); task.id == id) help_until(task);
  if (traces(kSubmissions)) note_wait(writers, start);
  const std::lock_guard lock(failures_mutex_);
  return std::none_of(writers.begin(), writers.end(),
                      [&](TaskId id) { return failures_.cause_of(id) >= 0; });
} catch (const std::bad_alloc&) {  // as in give_up()
  error_ = std::current_exception();
  is_stopped_.store(true);
  throw;
}

void Engine::help_until(const Task& task) {
  while (!task.is_done()) {
    if (Task* ready = find(*submitter_))
      run_chain(*submitter_, ready);
    else
      rest_unless([&] { return task.is_done(); });
  }
}

void Engine::finish_all() {
  const TaskId first = last_ > TaskId(window_) ? last_ - TaskId(window_) + 1 : 1;
  for (TaskId id = first; id <= last_; ++id) help_until(slot(id));
}

void Engine::orchestrate() {
  try {
    orchestrate_(*this);
  } catch (...) {
    error_ = std::current_exception();
    is_stopped_.store(true);
  }
  finish_all();
  is_over_.store(true, std::memory_order_seq_cst);
  wake();
}

}  // namespace pto
