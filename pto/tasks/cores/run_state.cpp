// SPDX-License-Identifier: Apache-2.0
// Begins and ends a run: slots, memory, trace, failures.
#include "pto/tasks/cores/run_state.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "pto/base/clock.hpp"
#include "pto/base/error.hpp"
#include "pto/launch/pool.hpp"

namespace pto {

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
  if (workers == 1) window = 1;  // each task is done before the next is submitted
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
  // A task of many blocks may stand in a deque once for each worker.
  const auto places = int64_t(std::bit_ceil(uint64_t(window) * uint64_t(workers)));
  return std::make_unique<RunSlots>(window, workers, places);
}

void RunSlots::give_back(std::unique_ptr<RunSlots> slots) {
  FreeSlots& free = free_slots();
  const std::lock_guard lock(free.mutex);
  if (free.all.size() < FreeSlots::kMost) free.all.push_back(std::move(slots));
}

namespace {

// A simulated run begins with fresh slots, so that a seed replays exactly.
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
      window_(held_->window),
      slots_(held_->tasks.get()),
      workers_(held_->workers),
      trace_(options.trace),
      trace_level_(trace_ == nullptr ? -1 : trace_->level),
      steps_(options.steps),
      watch_(options.watch),
      is_watched_(trace_ != nullptr || steps_ != nullptr || watch_ != nullptr),
      is_alone_(workers_.size() == 1 && steps_ == nullptr),
      short_ticks_(steps_ == nullptr ? 1024 : 400),
      deadline_s_(options.deadline_s) {
  if (options.deadline_s > 0) deadline_ns_ = now_ns() + span_ns(options.deadline_s);
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
  if (!failures_.is_empty())  // later errors follow from it
    fail(text_of(failures_.first()), ErrorKind::Runtime);
  if (has_failed_.load()) throw std::bad_alloc();  // no memory was left for a text
  if (error_) std::rethrow_exception(error_);
  if (!stopped_.empty())
    fail({"the run was stopped: " + stopped_, "its orchestration failed or was cancelled",
          "mend the cause; the runtime can be used again"},
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

Allocation& add_allocation(std::vector<std::unique_ptr<Allocation>>& allocations, char* data,
                           int64_t bytes, bool is_owned) {
  std::unique_ptr<char, void (*)(void*)> owned(is_owned ? data : nullptr, &pto_free);
  allocations.push_back(std::make_unique<Allocation>());
  owned.release();
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
  Allocation& made = add_allocation(allocations_, static_cast<char*>(data), bytes, true);
  if (traces(kRecords)) note_allocation(made);
  return made;
}

void Engine::drop_dead_allocations() {
  std::erase_if(allocations_, [&](const std::unique_ptr<Allocation>& one) {
    if (!one->is_dead.load(std::memory_order_acquire)) return false;
    report_.unknown_overlaps += one->history.unknown_overlaps();
    dead_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

RunReport run_tasks(const RunOptions& options, const std::function<void(TaskRun&)>& orchestrate) {
  check_window(options.window);
  Engine engine(options, orchestrate);
  return engine.run();
}

}  // namespace pto
