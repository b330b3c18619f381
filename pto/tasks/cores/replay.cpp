// SPDX-License-Identifier: Apache-2.0
// Replays a captured graph. One worker runs the tasks in the order of their submission, which
// respects all edges; several share them by counters of predecessors.
#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <optional>
#include <thread>

#include "pto/base/error.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/stores.hpp"
#include "pto/launch/sync.hpp"
#include "pto/tasks/book/trace_replay.hpp"
#include "pto/tasks/cores/graph.hpp"
#include "pto/tasks/cores/run_state.hpp"

namespace pto {
namespace {

constexpr int kSpins = 4000;
constexpr int64_t kRootsAtOnce = 64;

// The services of a worker's tasks: an error text for the task alone, all else from its launch.
struct TaskServices : pto_services {
  explicit TaskServices(const pto_services& launch) : pto_services(launch) {
    state = this;
    fail = [](pto_services* self, const char* what) -> int32_t {
      static_cast<TaskServices*>(self)->text = what == nullptr ? "" : what;
      return kBlockThrew;
    };
  }
  std::string text;
};

// Prepares the first replay by `workers` workers. A completed replay leaves all counts as they
// were.
void prepare(ReplayQueues& queues, const std::vector<GraphTask>& tasks, int workers) {
  const auto capacity = int64_t(std::bit_ceil(std::max<size_t>(tasks.size(), 2)));
  while (queues.ready.size() < size_t(workers))
    queues.ready.push_back(std::make_unique<ReadyDeque<GraphTask>>(capacity));
  if (queues.is_clean) return;
  if (queues.waiting == nullptr) {
    for (size_t i = 0; i < tasks.size(); ++i)
      if (tasks[i].predecessors == 0) queues.roots.push_back(int32_t(i));
    queues.waiting = std::make_unique<std::atomic<int32_t>[]>(tasks.size());
  }
  for (size_t i = 0; i < tasks.size(); ++i)
    queues.waiting[i].store(tasks[i].predecessors, std::memory_order_relaxed);
  for (auto& ready : queues.ready)  // left by a replay that was broken off
    while (ready->pop() != nullptr) {
    }
}

class Replay {
 public:
  Replay(std::vector<GraphTask>& tasks, const std::vector<int32_t>& successors,
         ReplayQueues& queues, int workers, ReplayTrace* trace)
      : tasks_(tasks),
        successors_(successors),
        queues_(queues),
        workers_(workers),
        trace_(trace),
        left_(int64_t(tasks.size())) {
    if (workers == 1) return;
    prepare(queues, tasks, workers);
    queues.is_clean = false;
    const int64_t share = int64_t(queues.roots.size()) / (8 * workers);
    roots_at_once_ = std::clamp<int64_t>(share, 1, kRootsAtOnce);
  }

  // The kernel of a launch whose blocks run tasks until there are none; its params are the Replay.
  static int32_t work(const pto_args* outer) {
    Replay& self = *static_cast<Replay*>(const_cast<void*>(outer->params));
    TaskServices services(*outer->services);
    if (self.workers_ == 1) {
      self.run_in_order(services);
      return 0;
    }
    try {
      self.run_shared(services, outer->block);
    } catch (...) {  // the others need not wait for this worker's tasks
      self.left_.store(-int64_t(self.tasks_.size()) - 1);
      throw;
    }
    return 0;
  }
  void finish() { queues_.is_clean = left_.load() == 0; }

  void throw_failure() const {
    if (failures_.empty()) return;
    TaskFailure first = failures_.front();
    first.others = std::count(poisoned_.begin(), poisoned_.end(), 1) - 1;
    ErrorText text = text_of(first);
    text.fix = "mend the cause; the graph can be replayed again";
    fail(std::move(text), ErrorKind::Runtime);
  }
  int64_t skipped() const { return skipped_.load(); }
  const std::vector<TaskFailure>& failures() const { return failures_; }

 private:
  int64_t number_of(const GraphTask& task) const { return &task - tasks_.data(); }

  void run_in_order(TaskServices& services) {
    if (trace_ == nullptr) [[likely]] {
      for (GraphTask& task : tasks_) run(task, services);
      return;
    }
    for (GraphTask& task : tasks_) {
      trace_->is_ready(number_of(task));
      step(task, services, 0);
    }
  }

  void step(GraphTask& task, TaskServices& services, int32_t worker) {
    if (trace_ == nullptr) [[likely]] {
      run(task, services);
      return;
    }
    const uint64_t start = read_ticks();
    if (run(task, services)) trace_->add(number_of(task), worker, start);
  }

  void run_shared(TaskServices& services, int32_t worker) {
    ReadyDeque<GraphTask>& own = *queues_.ready[size_t(worker)];
    int spins = 0;
    while (left_.load(std::memory_order_acquire) > 0) {
      int64_t done = 0;
      if (GraphTask* const task = find(own, worker))
        done = run_chain(task, services, worker);
      else
        done = run_roots(services, worker);
      if (done > 0) {
        left_.fetch_sub(done, std::memory_order_acq_rel);
        spins = 0;
      } else if (++spins > kSpins) {
        std::this_thread::yield();
      }
    }
  }

  GraphTask* find(ReadyDeque<GraphTask>& own, int32_t worker) {
    if (GraphTask* const task = own.pop()) return task;
    if (next_root_.load(std::memory_order_relaxed) < int64_t(queues_.roots.size())) return nullptr;
    for (int i = 1; i < workers_; ++i)
      if (GraphTask* task = queues_.ready[size_t((worker + i) % workers_)]->steal()) return task;
    return nullptr;
  }

  // Runs some roots and the successors that become ready at once; returns how many ended.
  int64_t run_roots(TaskServices& services, int32_t worker) {
    const auto all = int64_t(queues_.roots.size());
    if (next_root_.load(std::memory_order_relaxed) >= all) return 0;
    const int64_t first = next_root_.fetch_add(roots_at_once_, std::memory_order_relaxed);
    const int64_t behind = std::min(first + roots_at_once_, all);
    int64_t done = 0;
    for (int64_t i = first; i < behind; ++i)
      done += run_chain(&tasks_[size_t(queues_.roots[size_t(i)])], services, worker);
    return done;
  }

  int64_t run_chain(GraphTask* task, TaskServices& services, int32_t worker) {
    ReadyDeque<GraphTask>& own = *queues_.ready[size_t(worker)];
    int64_t done = 0;
    for (; task != nullptr; ++done) {
      step(*task, services, worker);
      task = release(*task, own);
    }
    return done;
  }

  // Counts the task as done for its successors; returns one of them that is ready now.
  GraphTask* release(const GraphTask& task, ReadyDeque<GraphTask>& own) {
    GraphTask* next = nullptr;
    for (int32_t i = 0; i < task.n_successors; ++i) {
      const int32_t to = successors_[size_t(task.first_successor + i)];
      std::atomic<int32_t>& waiting = queues_.waiting[size_t(to)];
      // A successor with one open predecessor needs no atomic decrement.
      if (waiting.load(std::memory_order_acquire) > 1 &&
          waiting.fetch_sub(1, std::memory_order_acq_rel) > 1)
        continue;
      waiting.store(tasks_[size_t(to)].predecessors, std::memory_order_relaxed);  // restored
      if (trace_ != nullptr) trace_->is_ready(to);
      if (next != nullptr) own.push(next);
      next = &tasks_[size_t(to)];
    }
    return next;
  }

  // Runs all blocks of one task as a block of this launch. Returns false if it did not call the
  // kernel. Inlined in both loops: a call costs a tenth of an empty task.
  [[gnu::always_inline]] inline bool run(GraphTask& task, TaskServices& services) {
    if (has_failed_.load(std::memory_order_acquire) && is_poisoned(task)) return false;
    if (task.kernel == nullptr) return false;
    if (!holds(task.predicate)) {
      skipped_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (task.start_together || task.kernel->cores != nullptr) {
      if (task.kernel->launch(task.args, task.blocks) != 0) note_failure(task, pto_last_error());
      return true;
    }
    const Block outer = t_block;
    const ScratchStack::Mark mark = t_block.scratch->mark();
    task.args.services = &services;
    t_block.args = &task.args;
    t_block.count = task.blocks;
    for (int32_t block = 0; block < task.blocks; ++block) {
      task.args.block = t_block.index = block;
      if (!call(task, services)) break;
    }
    t_block.scratch->release(mark);
    t_block.args = outer.args;
    t_block.index = outer.index;
    t_block.count = outer.count;
    return true;
  }

  bool call(GraphTask& task, TaskServices& services) {
    try {
      const int32_t code = task.kernel->function(&task.args);
      if (code == 0) [[likely]] {
        if (!services.text.empty()) [[unlikely]]
          services.text.clear();  // the next task must not find it
        return true;
      }
      note_failure(task, services.text.empty() ? "the kernel returned " + std::to_string(code)
                                               : services.text);
    } catch (const Stopped&) {
      throw;  // the launch reports it
    } catch (const std::exception& error) {
      note_failure(task, error.what());
    } catch (...) {
      note_failure(task, "the kernel threw something that is no std::exception");
    }
    services.text.clear();
    return false;
  }

  void note_failure(const GraphTask& task, std::string text) {
    const std::lock_guard lock(mutex_);
    if (poisoned_.empty()) poisoned_.resize(tasks_.size());
    poisoned_[size_t(number_of(task))] = 1;
    for (int32_t i = 0; i < task.n_successors; ++i)
      poisoned_[size_t(successors_[size_t(task.first_successor + i)])] = 1;
    failures_.push_back({TaskId(number_of(task)) + 1, task.kernel->name,
                         site_of(task.file, task.line), std::move(text), "in a replay"});
    has_failed_.store(true, std::memory_order_release);
  }

  // Says whether the task follows a failed one; then it poisons the successors too.
  bool is_poisoned(const GraphTask& task) {
    const std::lock_guard lock(mutex_);
    if (!poisoned_[size_t(number_of(task))]) return false;
    for (int32_t i = 0; i < task.n_successors; ++i)
      poisoned_[size_t(successors_[size_t(task.first_successor + i)])] = 1;
    return true;
  }

  std::vector<GraphTask>& tasks_;
  const std::vector<int32_t>& successors_;
  ReplayQueues& queues_;
  const int workers_;
  ReplayTrace* const trace_;  // null: none
  int64_t roots_at_once_ = 1;
  alignas(64) std::atomic<int64_t> next_root_{0};
  alignas(64) std::atomic<int64_t> left_;
  std::atomic<bool> has_failed_{false};
  std::atomic<int64_t> skipped_{0};
  std::mutex mutex_;
  std::vector<char> poisoned_;
  std::vector<TaskFailure> failures_;
};

}  // namespace

RunReport TaskGraph::replay(std::span<const pto_tensor> tensors, const RunOptions& options,
                            const Numbers& scalars) {
  const std::lock_guard lock(replaying_);
  derive(scalars);
  patch(tensors);
  const int wanted = options.workers > 0 ? options.workers : num_threads();
  const int workers = int(std::min<size_t>(size_t(wanted), std::max<size_t>(tasks_.size(), 1)));
  std::optional<ReplayTrace> trace;
  if (options.trace != nullptr) trace.emplace(*options.trace, tasks_, workers);
  Replay replay(tasks_, successors_, queues_, workers, trace ? &*trace : nullptr);
  const pto_args args = args_of({}, {}, std::as_bytes(std::span(&replay, 1)));
  const int32_t code = pto_launch(Replay::work, &args, workers);
  replay.finish();
  if (trace) {
    options.trace->failures = replay.failures();
    trace->end(successors_, causes_, memory_);
  }
  if (code != 0)
    fail({"a replay failed: " + std::string(pto_last_error()),
          "a kernel waited for a signal that no task of the graph sends",
          "add the task that sends the signal; the graph can be replayed again"},
         ErrorKind::Runtime);
  replay.throw_failure();
  RunReport report;
  report.tasks = this->tasks();
  report.edges = edges();
  report.skipped = replay.skipped();
  report.unknown_overlaps = unknown_overlaps_;
  return report;
}

}  // namespace pto
