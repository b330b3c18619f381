// SPDX-License-Identifier: Apache-2.0
// The orchestrating thread's side of a run: memory, submission, waiting, the end.
#include <algorithm>
#include <bit>

#include "pto/base/error.hpp"
#include "pto/runtime/pool.hpp"
#include "pto/runtime/tasks/run_state.hpp"

namespace pto {
namespace {

// Ready tasks that the orchestrating thread leaves to others before it runs one itself.
constexpr int64_t kFarAhead = 128;
// Tasks after which the lists of readers are cleared of those that are done.
constexpr TaskId kForgetEvery = 1 << 16;

}  // namespace

Box box_of(const TaskTensor& tensor) {
  const pto_tensor& view = tensor.view;
  const auto rank = size_t(view.rank);
  return make_box(static_cast<char*>(view.data) - tensor.allocation->data, {view.sizes, rank},
                  {view.strides, rank}, std::max(1, view.type_bits / 8));
}

char* TaskRun::data_of(const Allocation& allocation) { return allocation.data; }
int64_t TaskRun::bytes_of(const Allocation& allocation) { return allocation.bytes; }

RunSlots::RunSlots(int64_t window, int count, int64_t ready_places)
    : window(window), tasks(std::make_unique<Task[]>(size_t(window))) {
  for (int i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<TaskWorker>(ready_places));
    workers.back()->index = i;
    workers.back()->random = uint32_t(i) * 2654435761u + 1;
  }
}

namespace {

struct FreeSlots {
  static constexpr size_t kMost = 4;
  std::mutex mutex;
  std::vector<std::unique_ptr<RunSlots>> all;
};
FreeSlots& free_slots() {
  static FreeSlots& slots = *new FreeSlots;  // never destroyed: runs may end late
  return slots;
}

}  // namespace

std::unique_ptr<RunSlots> RunSlots::take(int64_t window, int workers) {
  FreeSlots& free = free_slots();
  {
    const std::lock_guard lock(free.mutex);
    for (auto& one : free.all)
      if (one->window == window && one->workers.size() == size_t(workers)) {
        std::swap(one, free.all.back());
        std::unique_ptr<RunSlots> found = std::move(free.all.back());
        free.all.pop_back();
        return found;
      }
  }
  // A task of many blocks may stand in a deque as often as there are workers.
  const auto places = int64_t(std::bit_ceil(uint64_t(window) * uint64_t(workers)));
  return std::make_unique<RunSlots>(window, workers, places);
}

void RunSlots::give_back(std::unique_ptr<RunSlots> slots) {
  FreeSlots& free = free_slots();
  const std::lock_guard lock(free.mutex);
  if (free.all.size() < FreeSlots::kMost) free.all.push_back(std::move(slots));
}

namespace {

// Simulated runs begin with slots in which nothing has happened, so that a seed replays exactly.
std::unique_ptr<RunSlots> slots_for(const RunOptions& options) {
  const int workers = options.workers > 0 ? options.workers : num_threads();
  if (options.steps == nullptr) return RunSlots::take(options.window, workers);
  return std::make_unique<RunSlots>(options.window, workers,
                                    options.steps->ready_places(options.window, workers));
}

}  // namespace

Engine::Engine(const RunOptions& options, const std::function<void(TaskRun&)>& orchestrate)
    : orchestrate_(orchestrate),
      held_(slots_for(options)),
      window_(options.window),
      slots_(held_->tasks.get()),
      workers_(held_->workers),
      trace_(options.trace),
      steps_(options.steps),
      watch_(options.watch),
      is_watched_(trace_ != nullptr || steps_ != nullptr || watch_ != nullptr),
      deadline_s_(options.deadline_s) {
  if (options.deadline_s > 0)
    deadline_ = std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(options.deadline_s));
  if (watch_ != nullptr) watch_->attach(*this, workers_.size());
}

RunReport Engine::run() {
  if (trace_ != nullptr) begin_trace();
  int32_t code = 0;
  if (steps_ != nullptr)
    steps_->run(
        int(workers_.size()),
        [](void* engine, int worker) { static_cast<Engine*>(engine)->work(worker); }, this);
  else
    code = parallel_for(
        int32_t(workers_.size()),
        [](void* engine, int32_t worker) -> int32_t {
          static_cast<Engine*>(engine)->work(worker);
          return 0;
        },
        this);
  if (trace_ != nullptr) end_trace();
  if (code != 0) PTO_ASSERT(!"a worker of a run threw");
  if (!failures_.empty()) throw_first_failure();  // what was thrown after it follows from it
  if (error_) std::rethrow_exception(error_);
  if (!stopped_.empty())
    fail({"the run was stopped: " + stopped_, "its orchestration said so", "see the text"},
         ErrorKind::Runtime);
  report_.skipped = skipped_.load();
  for (const auto& one : allocations_) report_.unknown_overlaps += one->history.unknown_overlaps();
  return report_;
}

void Engine::stop(const std::string& text) {
  const std::lock_guard lock(failures_mutex_);
  if (stopped_.empty()) stopped_ = text.empty() ? "without a text" : text;
  is_stopped_.store(true);
}

void Engine::throw_first_failure() {
  const TaskFailure& first = failures_.front();
  const size_t others = poisoned_.size() - 1;
  fail({"task " + std::to_string(first.task) + " (" + first.kernel + ")" +
            (first.site.empty() ? "" : ", submitted at " + first.site) + ", failed on worker " +
            std::to_string(first.worker) + ": " + first.text,
        others == 0 ? "no other task followed it"
                    : std::to_string(others) + " tasks follow it or failed too, and did not run",
        "mend the cause; the runtime can be used again"},
       ErrorKind::Runtime);
}

Allocation& add_allocation(std::vector<std::unique_ptr<Allocation>>& allocations, char* data,
                           int64_t bytes, bool is_owned) {
  allocations.push_back(std::make_unique<Allocation>());
  Allocation& added = *allocations.back();
  added.data = data;
  added.bytes = bytes;
  added.is_owned = is_owned;
  return added;
}

std::vector<Allocation*> adopt_pieces(std::span<const MemoryPiece> pieces,
                                      std::vector<std::unique_ptr<Allocation>>& allocations) {
  std::vector<size_t> order(pieces.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return pieces[a].data < pieces[b].data; });
  std::vector<Allocation*> result(pieces.size());
  Allocation* last = nullptr;
  for (size_t i : order) {
    char* const begin = static_cast<char*>(pieces[i].data);
    if (last == nullptr || begin >= last->data + last->bytes) {
      last = &add_allocation(allocations, begin, pieces[i].bytes, false);
    } else {
      last->bytes = std::max<int64_t>(last->bytes, begin + pieces[i].bytes - last->data);
    }
    result[i] = last;
  }
  return result;
}

std::vector<Allocation*> Engine::adopt(std::span<const MemoryPiece> pieces) {
  std::vector<Allocation*> result = adopt_pieces(pieces, allocations_);
  for (Allocation* one : result) refuse_known_memory(*one);
  return result;
}

void Engine::refuse_known_memory(const Allocation& added) const {
  for (const auto& other : allocations_)
    if (other.get() != &added && !other->is_owned && other->bytes > 0 && added.bytes > 0 &&
        other->data < added.data + added.bytes && added.data < other->data + other->bytes)
      fail({"memory was adopted that overlaps what the run has adopted before",
            "tasks are ordered by the allocations that they touch, so memory belongs to one",
            "adopt overlapping pieces in one call"});
}

Allocation& Engine::allocate(int64_t bytes) {
  if (dead_.load(std::memory_order_relaxed) > int64_t(allocations_.size()) / 2 + 16)
    drop_dead_allocations();
  void* const data = bytes < 0 ? nullptr : pto_malloc(size_t(std::max<int64_t>(bytes, 1)));
  if (data == nullptr)
    fail({"a run asked for " + std::to_string(bytes) + " bytes, which the system does not have",
          "tensors of an orchestration lie in memory until their tasks are done",
          "use smaller tensors, or scopes that let go of them earlier"},
         ErrorKind::Runtime);
  return add_allocation(allocations_, static_cast<char*>(data), bytes, true);
}

void Engine::drop_dead_allocations() {
  std::erase_if(allocations_, [&](const std::unique_ptr<Allocation>& one) {
    if (!one->is_dead.load(std::memory_order_acquire)) return false;
    report_.unknown_overlaps += one->history.unknown_overlaps();
    dead_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

Task& Engine::claim_slot() {
  Task& task = slot(last_ + 1);
  if (task.id != 0 && !task.is_done()) help_until(task);
  if (submitter_->ready.size() >= kFarAhead)
    if (Task* ready = submitter_->ready.pop()) run_chain(*submitter_, ready);
  task.id = ++last_;
  task.pending.store(1, std::memory_order_relaxed);
  task.cause.store(-1, std::memory_order_relaxed);
  task.successors.store(nullptr, std::memory_order_relaxed);
  task.n_edges = 0;
  task.turns_taken = 0;
  task.holds.clear();
  task.turns.clear();
  return task;
}

void check_submission(const TaskSpec& spec, TaskId last) {
  if (spec.blocks < 1)
    fail({"a task of " + std::to_string(spec.blocks) + " blocks",
          "a task runs its kernel once a block, at least once", "pass a count of blocks"});
  for (TaskId id : spec.after)
    if (id == 0 || id > last)
      fail({"a task is to follow task " + std::to_string(id) + ", but the last submitted is " +
                std::to_string(last),
            "a task follows earlier ones of its run", "pass an id that submit() returned"});
  for (const TaskTensor& tensor : spec.tensors) {
    if (tensor.view.rank > kBoxRank)
      fail({"a tensor of " + std::to_string(tensor.view.rank) + " dimensions",
            "tensors of tasks have at most " + std::to_string(kBoxRank), "reshape it"});
    if (tensor.allocation->users.load(std::memory_order_relaxed) <= 0)
      fail({"a task uses a tensor that its scope has let go of",
            "memory of a scope is freed when its tasks are done", "submit inside the scope"});
  }
}

void Engine::follow(Task& task, TaskId earlier) {
  if (earlier == task.id) return;
  if (traces(kEdges)) trace_->edges.push_back({earlier, task.id, cause_});
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
      if (other.successors.compare_exchange_weak(head, edge, std::memory_order_acq_rel)) {
        ++report_.edges;
        return;
      }
    }
    if (edge != nullptr) task.pending.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!has_failed_.load(std::memory_order_acquire)) return;  // done, and well
  const std::lock_guard lock(failures_mutex_);
  const auto it = poisoned_.find(earlier);
  if (it != poisoned_.end()) task.cause.store(it->second, std::memory_order_relaxed);
}

void Engine::follow_tensor(Task& task, const TaskTensor& tensor) {
  Allocation& allocation = *tensor.allocation;
  if (allocation.is_owned) {
    allocation.users.fetch_add(1, std::memory_order_relaxed);
    task.holds.push_back(&allocation);
  }
  if (!tensor.is_tracked) return;
  cause_ = tensor.access == Access::Write ? EdgeCause::Storage : EdgeCause::Data;
  const int64_t box = allocation.history.record(box_of(tensor), tensor.access, task.id,
                                                [&](TaskId earlier) { follow(task, earlier); });
  if (tensor.access != Access::Reduce || box < 0) return;
  ReduceTurn& turn = allocation.turns[box];
  if (turn.number == 0) turn.number = ++turns_made_;
  task.turns.push_back(&turn);
  if (traces(kEdges)) trace_->turns.emplace_back(task.id, turn.number);
}

// The argument block of the kernel; a slot's memory is used again.
void Engine::fill(Task& task, const TaskSpec& spec) {
  task.kernel = spec.kernel;
  task.blocks = spec.start_together ? 1 : spec.blocks;
  task.start_together = spec.start_together && spec.blocks > 1;
  task.next_block.store(0, std::memory_order_relaxed);
  task.blocks_left.store(task.blocks + entries_of(task), std::memory_order_relaxed);
  task.predicate = spec.predicate != nullptr ? *spec.predicate : Predicate{};
  task.file = spec.file;
  task.line = spec.line;
  size_t dims = 0;
  for (const TaskTensor& tensor : spec.tensors) dims += 2 * size_t(tensor.view.rank);
  task.tensors.resize(spec.tensors.size());
  task.dims.resize(dims);
  int64_t* next = task.dims.data();
  for (size_t i = 0; i < spec.tensors.size(); ++i) {
    const pto_tensor& view = spec.tensors[i].view;
    task.tensors[i] = view;
    task.tensors[i].sizes = next;
    next = std::copy_n(view.sizes, view.rank, next);
    task.tensors[i].strides = next;
    next = std::copy_n(view.strides, view.rank, next);
  }
  if (trace_ != nullptr) name_for_trace(task, spec);
  task.scalars.assign(spec.scalars.begin(), spec.scalars.end());
  task.args = {};
  task.args.abi_version = PTO_ABI_VERSION;
  task.args.n_tensors = int32_t(task.tensors.size());
  task.args.tensors = task.tensors.data();
  task.args.n_scalars = int32_t(task.scalars.size());
  task.args.scalars = task.scalars.data();
  task.args.blocks = spec.blocks;
}

TaskId Engine::submit(const TaskSpec& spec) {
  check_submission(spec, last_);
  const uint64_t start = traces(kSubmissions) ? ticks() : 0;
  Task& task = claim_slot();
  const uint64_t claimed = traces(kSubmissions) ? ticks() : 0;
  fill(task, spec);
  for (const TaskTensor& tensor : spec.tensors) follow_tensor(task, tensor);
  if (spec.predicate_tensor != nullptr) follow_tensor(task, *spec.predicate_tensor);
  cause_ = EdgeCause::After;
  for (TaskId id : spec.after) follow(task, id);
  if (task.id % kForgetEvery == 0)
    for (const auto& one : allocations_)
      one->history.forget([&](TaskId id) { return slot(id).id != id || slot(id).is_done(); });
  std::sort(task.turns.begin(), task.turns.end(),
            [](const ReduceTurn* a, const ReduceTurn* b) { return a->number < b->number; });
  task.turns.erase(std::unique(task.turns.begin(), task.turns.end()), task.turns.end());
  ++report_.tasks;
  const TaskId id = task.id;
  at(Step::Submitted, &task);
  if (task.pending.fetch_sub(1, std::memory_order_acq_rel) == 1)
    make_ready(*submitter_, &task, nullptr);
  if (traces(kSubmissions)) note_submission(start, claimed);
  return id;
}

bool Engine::wait_for(const TaskTensor& tensor) {
  std::vector<TaskId> writers;
  tensor.allocation->history.writers(box_of(tensor), [&](TaskId id) { writers.push_back(id); });
  const uint64_t start = traces(kSubmissions) ? ticks() : 0;
  for (TaskId id : writers)
    if (Task& task = slot(id); task.id == id) help_until(task);
  if (traces(kSubmissions)) note_wait(writers, start);
  const std::lock_guard lock(failures_mutex_);
  return std::none_of(writers.begin(), writers.end(),
                      [&](TaskId id) { return poisoned_.count(id) > 0; });
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

RunReport run_tasks(const RunOptions& options, const std::function<void(TaskRun&)>& orchestrate) {
  if (options.window < 2 || (options.window & (options.window - 1)) != 0)
    fail({"a window of " + std::to_string(options.window) + " tasks",
          "the window is a power of two, at least 2", "pass 4096, for example"});
  Engine engine(options, orchestrate);
  return engine.run();
}

}  // namespace pto
