// SPDX-License-Identifier: Apache-2.0
// The workers' side of a run: they find ready tasks, run them and release their successors.
#include <algorithm>

#include "pto/base/clock.hpp"
#include "pto/base/error.hpp"
#include "pto/tasks/cores/run_state.hpp"

namespace pto {
namespace {

void make_launch(TaskWorker& worker) {
  const pto_args none{};  // each task has its own
  worker.launch.emplace(nullptr, none, 1);
}

}  // namespace

void Engine::work(int worker) {
  TaskWorker& self = *workers_[size_t(worker)];
  const KernelFloatState float_state;
  make_launch(self);
  self.ticks_a_task = short_ticks_;
  if (worker == 0) {
    submitter_ = &self;
    orchestrate();
  } else {
    work_until_end(self);
  }
  self.launch.reset();
}

void Engine::work_until_end(TaskWorker& self) {
  while (!is_over_.load(std::memory_order_acquire)) {
    if (Task* task = find(self))
      run_chain(self, task);
    else
      rest_unless([&] { return is_over_.load(std::memory_order_seq_cst); });
  }
}

// Moving a task to another core costs about 200 ns for its cache lines. A worker therefore leaves a
// few short tasks to their owner for about as long as it takes to run them.
bool Engine::is_worth_a_visit(TaskWorker& self, const TaskWorker& other) {
  const int64_t ready = other.ready.size();
  if (ready == 0) return false;
  if (are_short_.load(std::memory_order_relaxed) && ready < kMany && ++self.patience < kPatience) {
    at(Step::Pass);
    pause_core();
    return false;
  }
  self.patience = 0;
  return true;
}

Task* Engine::find(TaskWorker& self) {
  if (Task* task = self.ready.pop()) return task;
  at(Step::Look);
  const size_t n = workers_.size();
  self.random = self.random * 1664525u + 1013904223u;
  const size_t start = self.random >> 16;
  for (size_t i = 0; i < n; ++i) {
    TaskWorker& other = *workers_[(start + i) % n];
    if (&other == &self || !is_worth_a_visit(self, other)) continue;
    at(Step::Steal);
    if (Task* task = other.ready.steal()) {
      task->fetch();
      if (Task* const next = other.ready.peek()) next->fetch();  // fetched while this one runs
      return task;
    }
  }
  return nullptr;
}

void Engine::put(TaskWorker& self, Task* task) {
  at(Step::Put, task);
  if (!self.ready.push(task)) PTO_ASSERT(!"more ready tasks than a window holds");
  wake();
}

// Queues a task whose predecessors are done, after it has taken its turns. The first task of a
// chain becomes `*next` instead, which the worker runs itself.
void Engine::make_ready(TaskWorker& self, Task* task, Task** next) {
  if (task->n_turns > 0 && !take_turns(*task)) return;
  if (traces(kRecords)) task->ready_ticks = ticks();
  if (task->blocks > 1) settle_condition(*task);
  for (int32_t i = 1; i < entries_of(*task); ++i) put(self, task);
  if (next != nullptr && *next == nullptr)
    *next = task;
  else
    put(self, task);
}

// Evaluates the condition once for all blocks: the first block may write the element it reads.
void Engine::settle_condition(Task& task) {
  if (task.predicate == nullptr) return;
  if (task.cause.load(std::memory_order_acquire) >= 0 || holds(*task.predicate)) {
    task.predicate = nullptr;
    return;
  }
  skipped_.fetch_add(1, std::memory_order_relaxed);
  task.kernel = nullptr;
}

bool Engine::take_turns(Task& task) {
  while (task.turns_taken < task.n_turns)
    if (!task.turns()[task.turns_taken++]->take(&task)) return false;
  return true;
}

// Runs the task and the successors that it keeps here; returns how many have ended.
int Engine::run_tasks_from(TaskWorker& self, Task* task) {
  int ended = 0;
  while (task != nullptr) {
    if (!run_blocks(self, *task)) break;
    task = complete(self, *task);
    ++ended;
  }
  self.last_ticks = 0;
  return ended;
}

void Engine::run_chain(TaskWorker& self, Task* task) {
  const uint64_t start = ticks();
  const int ended = run_tasks_from(self, task);
  judge(self, ticks() - start, std::max(ended, 1));
}

// Updates whether tasks are short. Other workers than the orchestrating thread also measure a
// task's way to them, so they count only if it is short all the same, or long by far.
void Engine::judge(TaskWorker& self, uint64_t ticks, int tasks) {
  const uint64_t most = 4 * short_ticks_;  // caps an outlier, so that it is soon forgotten
  const uint64_t one = std::min(ticks / uint64_t(tasks), most);
  self.ticks_a_task = (3 * self.ticks_a_task + one) / 4;
  const bool is_short = self.ticks_a_task < short_ticks_;
  const bool is_sure = &self == submitter_ || is_short || self.ticks_a_task > most / 2;
  if (is_sure && are_short_.load(std::memory_order_relaxed) != is_short)
    are_short_.store(is_short, std::memory_order_relaxed);
}

// The orchestrating thread runs a short task that is ready when submitted. It measures the task if
// the last one, or the orchestration before it, took long.
void Engine::run_here(Task& task) {
  if (task.n_turns > 0 && !take_turns(task)) return;
  const uint64_t start = is_in_doubt_ || traces(kRecords) ? ticks() : 0;
  if (traces(kRecords)) submitter_->last_ticks = task.ready_ticks = start;
  const TaskId id = task.id;
  run_tasks_from(*submitter_, &task);
  if (retired_ + 1 == id && !has_failed_.load(std::memory_order_relaxed)) retired_ = id;
  if (traces(kSubmissions)) note_run(start);
  const uint64_t end = ticks();
  if (is_in_doubt_) judge(*submitter_, end - start, 1);
  is_in_doubt_ = end - ran_until_ > short_ticks_;
  ran_until_ = end;
}

// Runs blocks of the task that no worker has claimed; returns true if the last of all ended here.
bool Engine::run_blocks(TaskWorker& self, Task& task) {
  if (task.blocks == 1) {
    call(self, task, 0);
    return true;
  }
  // Entries in deques count as blocks too: the slot is reusable only once no deque names the task.
  const int32_t blocks = task.blocks;
  int32_t done = 1;
  for (;; ++done) {
    at(Step::Block, &task);
    const int32_t block = task.next_block.fetch_add(1, std::memory_order_acq_rel);
    if (block >= blocks) break;
    call(self, task, block);
    if (is_lost(task)) {  // no further block begins
      const int32_t next = task.next_block.exchange(blocks, std::memory_order_acq_rel);
      done += std::max(blocks - next, 0);
    }
  }
  return task.blocks_left.fetch_sub(done, std::memory_order_acq_rel) == done;
}

int32_t Engine::call(TaskWorker& self, Task& task, int32_t block) {
  if (task.cause.load(std::memory_order_acquire) >= 0) return 0;
  if (is_stopped_.load(std::memory_order_relaxed)) return 0;
  if (task.kernel == nullptr) return 0;
  if (task.predicate != nullptr && !holds(*task.predicate)) {
    skipped_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (deadline_s_ > 0 && is_late()) {
    note_failure(self, task, "the run's deadline had passed when the task was to begin");
    return 1;
  }
  if (!is_watched_) [[likely]]
    return call_kernel(self, task, block);
  return watch_ == nullptr ? call_watched(self, task, block) : call_noted(self, task, block);
}

int32_t Engine::call_noted(TaskWorker& self, Task& task, int32_t block) {
  watch_->begin(self.index, {task.id, task.kernel->name.c_str(), task.file, task.line});
  const int32_t code =
      trace_ != nullptr ? call_watched(self, task, block) : call_kernel(self, task, block);
  watch_->end(self.index);
  return code;
}

bool Engine::is_late() const {
  if (steps_ != nullptr) return double(steps_->now_ns()) > deadline_s_ * 1e9;
  return now_ns() > deadline_ns_;
}

int32_t Engine::call_watched(TaskWorker& self, Task& task, int32_t block) {
  if (trace_ != nullptr && trace_->level == kCounters && steps_ == nullptr) {
    self.trace.count(task.kernel_number);
    return call_kernel(self, task, block);
  }
  const bool is_own = steps_ != nullptr || traces(kSubmissions) || self.last_ticks == 0;
  const uint64_t start = is_own ? ticks() : self.last_ticks;
  const int32_t code =
      steps_ == nullptr ? call_kernel(self, task, block)
                        : steps_->call(task, block, [&] { return call_kernel(self, task, block); });
  if (trace_ != nullptr) add_record(self, task, start);
  return code;
}

void Engine::add_record(TaskWorker& self, const Task& task, uint64_t start) {
  const uint64_t end = self.last_ticks = ticks();
  self.trace.count(task.kernel_number);
  if (trace_->level == kCounters) return;
  self.trace.add(record_of(task.id, {trace_start_, task.ready_ticks, start, end, tick_ns()},
                           task.kernel_number, self.index, task.site));
}

int32_t Engine::call_kernel(TaskWorker& self, Task& task, int32_t block) {
  pto_args args =
      args_of({task.tensors(), size_t(task.n_tensors)}, {task.scalars(), size_t(task.n_scalars)});
  if (task.together > 0 || task.kernel->cores != nullptr) {
    const int32_t code = task.together > 0 ? task.kernel->launch(args, task.together)
                                           : task.kernel->launch(args, task.blocks, block);
    if (code != 0) note_failure(self, task, pto_last_error());
    return code;
  }
  Launch& launch = *self.launch;
  launch.kernel = task.kernel->function;
  launch.blocks = args.blocks = task.blocks;
  args.services = &launch.services;
  const int32_t code = run_block(launch, block, args);
  // A kernel may leave a text and return 0; the next task must not find it.
  if (code != 0 || launch.has_text.load(std::memory_order_relaxed) ||
      launch.has_failed.load(std::memory_order_relaxed) || launch.sync_if_any() != nullptr ||
      launch.stores.load() != nullptr) {
    if (code != 0 || launch.has_failed.load()) note_failure(self, task, launch.text.c_str());
    make_launch(self);
  }
  return code;
}

void Engine::note_failure(TaskWorker& self, Task& task, const char* text) {
  const std::lock_guard lock(failures_mutex_);
  const int32_t number = failures_.count();
  int32_t none = -1;
  if (!task.cause.compare_exchange_strong(none, number, std::memory_order_acq_rel)) return;
  try {
    failures_.note({task.id, task.kernel->name, site_of(task.file, task.line), text,
                    "on worker " + std::to_string(self.index)});
  } catch (const std::bad_alloc&) {  // the failure itself is already recorded
  }
  has_failed_.store(true, std::memory_order_release);
}

// Records the cause for tasks that are submitted after this one has ended.
void Engine::poison(const Task& task, int32_t cause) {
  const std::lock_guard lock(failures_mutex_);
  try {
    failures_.poison(task.id, cause);
  } catch (const std::bad_alloc&) {
    is_stopped_.store(true);
  }
}

// Runs a task whose predecessors are all done.
void Engine::run_at_once(Task& task) {
  const uint64_t start = traces(kRecords) ? ticks() : 0;
  if (traces(kRecords)) submitter_->last_ticks = task.ready_ticks = start;
  if (task.blocks > 1) settle_condition(task);
  for (int32_t block = 0; block < task.blocks && !is_lost(task); ++block)
    call(*submitter_, task, block);
  submitter_->last_ticks = 0;
  if (const int32_t cause = task.cause.load(std::memory_order_relaxed); cause >= 0)
    poison(task, cause);
  task.successors.store(&kClosed, std::memory_order_relaxed);
  if (!has_failed_.load(std::memory_order_relaxed)) retired_ = task.id;
  if (traces(kSubmissions)) note_run(start);
}

// Releases the task's successors and its slot; returns a successor that this worker should run.
Task* Engine::complete(TaskWorker& self, Task& task) {
  const int32_t cause = task.cause.load(std::memory_order_acquire);
  if (cause >= 0) poison(task, cause);
  for (int32_t i = 0; i < task.n_holds; ++i) release(*task.holds()[i], self);
  Task* next = nullptr;
  at(Step::Close, &task);
  for (int32_t i = 0; i < task.n_turns; ++i)
    if (Task* waiting = task.turns()[i]->pass_on()) make_ready(self, waiting, &next);
  TaskEdge* edge = task.successors.exchange(&kClosed, std::memory_order_seq_cst);
  while (edge != nullptr) {
    Task* const to = edge->to;
    edge = edge->next;  // read before `to` is released, which owns the edge
    if (cause >= 0) {
      int32_t none = -1;
      to->cause.compare_exchange_strong(none, cause, std::memory_order_acq_rel);
    }
    at(Step::Release, to);
    if (to->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) make_ready(self, to, &next);
  }
  wake();
  return next;
}

}  // namespace pto
