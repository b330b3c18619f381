// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/pool.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "pto/base/blocked_signals.hpp"
#include "pto/base/clock.hpp"
#include "pto/base/machine.hpp"
#include "pto/launch/interruption.hpp"

namespace pto {
namespace {

// Layout of Pool::state_.
constexpr uint64_t kOneInside = 1;
constexpr uint64_t kInsideMask = 0xffff;
constexpr uint64_t kOpen = uint64_t{1} << 16;
constexpr int kThreadsShift = 17;
constexpr uint64_t kThreadsMask = 0x7fff;
constexpr int kGenerationShift = 32;

uint32_t generation_of(uint64_t state) { return static_cast<uint32_t>(state >> kGenerationShift); }
int threads_of(uint64_t state) { return static_cast<int>(state >> kThreadsShift & kThreadsMask); }
uint64_t inside_of(uint64_t state) { return state & kInsideMask; }

// A spinning thread looks at the clock once per this many pauses (about 1 us).
constexpr int kPausesPerLook = 24;
// A gap this long between two looks means that somebody else had the core.
constexpr int64_t kPreempted_ns = 30'000;
constexpr int64_t kCallerSpin_ns = 100'000;

// Returns at once where *word != expected; may return for no reason.
void futex_wait(std::atomic<uint32_t>* word, uint32_t expected, const timespec* at_most = nullptr) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, at_most, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

// The job whose blocks the thread runs, as claim_block() sees it; the innermost first.
class Job;
__attribute__((tls_model("initial-exec"))) constinit thread_local const Job* t_job = nullptr;

class Job {
 public:
  Job(const void* context, int wanted, int32_t (*claim)(void*), int (*threads)(void*), void* self)
      : context_(context),
        wanted_(wanted),
        claim_(claim),
        threads_(threads),
        self_(self),
        outer_(t_job) {
    t_job = this;
  }
  ~Job() { t_job = outer_; }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  static const Job* find(const void* context) {
    const Job* job = t_job;
    while (job != nullptr && job->context_ != context) job = job->outer_;
    return job;
  }
  int32_t claim() const { return claim_(self_); }
  int threads() const { return threads_(self_); }
  int wanted() const { return wanted_; }

 private:
  const void* const context_;
  const int wanted_;
  int32_t (*const claim_)(void*);
  int (*const threads_)(void*);
  void* const self_;
  const Job* const outer_;
};

__attribute__((tls_model("initial-exec"))) constinit thread_local bool t_inside_block = false;
thread_local ParallelFor t_executor = nullptr;
thread_local void* t_executor_user = nullptr;
thread_local int t_thread_limit = 0;  // 0: none

int32_t call_block(BlockFunction function, void* context, int32_t block,
                   const RecordedJob& job = {}) noexcept {
  const bool outer = t_inside_block;
  t_inside_block = true;
  int32_t result = kBlockThrew;
  try {
    const RecordedPart part(job);
    result = function(context, block);
  } catch (...) {  // the result says so; launches report the text themselves
  }
  t_inside_block = outer;
  return result;
}

struct InlineJob {
  int32_t next, blocks;

  static int32_t claim(void* self) {
    auto* job = static_cast<InlineJob*>(self);
    return job->next < job->blocks ? job->next++ : -1;
  }
};

int32_t run_inline(int32_t blocks, BlockFunction function, void* context) {
  InlineJob job{0, blocks};
  const Job scope(
      context, 1, InlineJob::claim, [](void*) { return 1; }, &job);
  int32_t result = 0;
  while (job.next < blocks && result == 0) result = call_block(function, context, job.next++);
  return result;
}

// A call on a host's loop permits its thread to run one block, of the range of the given one where
// it has any: a block that waits may have claimed that one.
struct HostedJob {
  BlockFunction function;
  void* context;
  RecordedJob recorded;
  BlockRanges ranges = {};
  static int32_t claim(void* self) { return static_cast<HostedJob*>(self)->ranges.take(0); }
};

int32_t run_hosted_block(void* self, int32_t given) {
  auto* job = static_cast<HostedJob*>(self);
  const Job scope(
      job->context, num_threads(), HostedJob::claim,
      [](void* of) { return static_cast<HostedJob*>(of)->ranges.inside(); }, job);
  const int range = job->ranges.range_of(given);
  job->ranges.enter(range);  // before the claim: nobody sees a claimed block without its thread
  const int32_t block = job->ranges.take(range);
  const int32_t result =
      block < 0 ? 0 : call_block(job->function, job->context, block, job->recorded);
  job->ranges.leave(range);
  return result;
}

std::atomic<int> g_threads{0};  // 0: the machine's
std::atomic<Pool*> g_pool{nullptr};
Pool* g_pool_of_parent = nullptr;  // kept: its threads stayed there, and nobody can join them

void forget_pool_in_child() { g_pool_of_parent = g_pool.exchange(nullptr); }
[[maybe_unused]] const int kPoolForkHandler =
    pthread_atfork(nullptr, nullptr, forget_pool_in_child);

// The pool is never destroyed: its threads sleep until the process ends, in any order of
// destructors.
Pool& process_pool() {
  Pool* pool = g_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  auto* made = new Pool(machine().cores, machine().spin_us);
  if (g_pool.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *pool;
}

// Keeps the old pool, since a thread that has just asked for it may still look at it.
void replace_process_pool(Pool* pool) {
  static std::mutex& mutex = *new std::mutex;
  static std::vector<Pool*>& replaced = *new std::vector<Pool*>;
  {
    const std::lock_guard lock(mutex);
    replaced.push_back(pool);
  }
  Pool* current = pool;
  g_pool.compare_exchange_strong(current, nullptr, std::memory_order_acq_rel);
  pool->retire();
}

}  // namespace

Pool::Pool(int threads_max, int spin_us)
    : threads_max_(std::clamp(threads_max, 1, static_cast<int>(kThreadsMask))),
      spin_ns_max_(threads_max > machine().cores ? 0 : int64_t{spin_us} * 1000),
      spin_ns_(spin_ns_max_) {
  workers_.reserve(static_cast<size_t>(threads_max_));
}

Pool::~Pool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  futex_wake(&epoch_, threads_max_);
  for (std::thread& worker : workers_) worker.join();
}

int32_t Pool::run(int32_t blocks, int threads, BlockFunction function, void* context, bool* taken) {
  *taken = take();
  return *taken ? run_taken(blocks, threads, function, context) : 0;
}

int32_t Pool::run_taken(int32_t blocks, int threads, BlockFunction function, void* context) {
  const int wanted = std::clamp(std::min(threads, blocks), 1, threads_max_);
  start_workers(wanted - 1);
  function_ = function;
  context_ = context;
  recorded_ = RecordedJob::of_this_thread();
  ranges_.reset(blocks, wanted);
  result_.store(0, std::memory_order_relaxed);
  const uint64_t generation = generation_of(state_.load(std::memory_order_relaxed)) + 1;
  state_.store(generation << kGenerationShift | static_cast<uint64_t>(wanted) << kThreadsShift |
               kOpen);
  // Sequentially consistent against the worker's "count me as parked, then look once more".
  epoch_.fetch_add(1);
  if (parked_.load() > 0) futex_wake(&epoch_, wanted - 1);
  take_blocks(0);
  state_.fetch_and(~kOpen);
  wait_for_workers();
  const int32_t result = result_.load(std::memory_order_relaxed);
  busy_.store(false, std::memory_order_release);
  return result;
}

void Pool::retire() {
  is_retired_.store(true);
  stop_.store(true);
  epoch_.fetch_add(1);
  futex_wake(&epoch_, threads_max_);
}

void Pool::start_workers(int wanted) {
  if (workers() >= wanted) return;
  const BlockedSignals blocked;
  try {
    const uint32_t seen = generation_of(state_.load(std::memory_order_relaxed));
    while (workers() < wanted) workers_.emplace_back(&Pool::work, this, seen);
  } catch (const std::system_error&) {  // no more threads: the existing ones run the blocks
  }
}

void Pool::work(uint32_t seen) {
  pthread_setname_np(pthread_self(), "pto-worker");
  for (;;) {
    uint64_t state = wait_for_job(seen);
    if (stop_.load(std::memory_order_relaxed)) {
      if (is_retired_.load()) pthread_detach(pthread_self());  // nobody joins it
      return;
    }
    seen = generation_of(state);
    while ((state & kOpen) && generation_of(state) == seen &&
           static_cast<int>(inside_of(state)) + 1 < threads_of(state)) {
      if (state_.compare_exchange_weak(state, state + kOneInside, std::memory_order_acquire)) {
        take_blocks(static_cast<int>(inside_of(state)) + 1);
        leave();
        break;
      }
    }
  }
}

uint64_t Pool::wait_for_job(uint32_t seen) {
  uint64_t state = 0;
  if (spin_for_job(seen, &state)) return state;
  for (;;) {
    parked_.fetch_add(1);
    const uint32_t epoch = epoch_.load();
    state = state_.load();
    const bool is_idle = generation_of(state) == seen && !stop_.load();
    if (is_idle) futex_wait(&epoch_, epoch);
    parked_.fetch_sub(1);
    if (!is_idle) return state;
  }
}

// The budget halves when this thread loses its core while it spins (the machine is full, and
// spinning takes time from working threads), and comes back step by step.
bool Pool::spin_for_job(uint32_t seen, uint64_t* state) {
  const int64_t budget = spin_ns_.load(std::memory_order_relaxed);
  const int64_t start = now_ns();
  for (int64_t last = start, now = start; now - start <= budget; last = now, now = now_ns()) {
    if (now - last > kPreempted_ns) {
      spin_ns_.store(budget / 2, std::memory_order_relaxed);
      return false;
    }
    for (int i = 0; i < kPausesPerLook; ++i) {
      *state = state_.load(std::memory_order_acquire);
      if (generation_of(*state) != seen || stop_.load(std::memory_order_relaxed)) return true;
      pause_core();
    }
  }
  spin_ns_.store(std::min(spin_ns_max_, budget + spin_ns_max_ / 16), std::memory_order_relaxed);
  return false;
}

void Pool::take_blocks(int thread) {
  const Job scope(
      context_, threads_wanted(), [](void* self) { return static_cast<Pool*>(self)->claim(); },
      [](void* self) { return static_cast<Pool*>(self)->threads_inside(); }, this);
  for (int32_t block = ranges_.take(thread); block >= 0; block = ranges_.take(thread)) {
    const int32_t result = call_block(function_, context_, block, recorded_);
    if (result == 0) continue;
    int32_t none = 0;
    result_.compare_exchange_strong(none, result, std::memory_order_relaxed);
    ranges_.stop();
  }
}

int32_t Pool::claim() { return ranges_.take(0); }

// The caller of run() counts until it closes the job.
int Pool::threads_inside() const {
  const uint64_t state = state_.load();
  return static_cast<int>(inside_of(state)) + ((state & kOpen) ? 1 : 0);
}

int Pool::threads_wanted() const { return threads_of(state_.load(std::memory_order_relaxed)); }

void Pool::leave() {
  const uint64_t before = state_.fetch_sub(kOneInside);
  if (inside_of(before) == 1 && !(before & kOpen) && caller_parked_.load()) {
    left_.fetch_add(1);
    futex_wake(&left_, 1);
  }
}

void Pool::wait_for_workers() {
  static constexpr timespec kSlice = {0, kInterruptionSlice_ms * 1'000'000L};
  const timespec* const slice = is_interruptible() ? &kSlice : nullptr;
  const auto is_empty = [this] { return inside_of(state_.load()) == 0; };
  for (int64_t start = 0; !is_empty();) {
    for (int i = 0; i < kPausesPerLook && !is_empty(); ++i) pause_core();
    if (start == 0) start = now_ns();
    if (now_ns() - start < kCallerSpin_ns) continue;
    caller_parked_.store(true);
    for (;;) {
      const uint32_t left = left_.load();
      if (is_empty()) break;
      futex_wait(&left_, left, slice);
      if (slice != nullptr) interrupted();
    }
    caller_parked_.store(false);
  }
}

int32_t parallel_for(int32_t blocks, BlockFunction function, void* context) {
  if (t_inside_block || blocks <= 1) return run_inline(blocks, function, context);
  const RecordScope job_span(SpanKind::Job, -1);
  if (t_executor != nullptr) {
    HostedJob job{function, context, RecordedJob::of_this_thread()};
    job.ranges.reset(blocks, num_threads());
    return t_executor(t_executor_user, blocks, run_hosted_block, &job);
  }
  const int threads = num_threads();
  if (threads > 1) {
    bool taken = false;
    const int32_t result = process_pool().run(blocks, threads, function, context, &taken);
    if (taken) return result;
  }
  return run_inline(blocks, function, context);
}

Pool* AbandonablePool::take() {
  const std::lock_guard lock(mutex_);
  if (is_abandoned_ || num_threads() == 1) return nullptr;
  Pool& pool = process_pool();
  held_ = pool.take() ? &pool : nullptr;
  return held_;
}

int32_t AbandonablePool::parallel_for(void* self, int32_t blocks, BlockFunction function,
                                      void* context) {
  auto& mine = *static_cast<AbandonablePool*>(self);
  int32_t result = 0;
  if (Pool* const pool = mine.take()) {
    result = pool->run_taken(blocks, num_threads(), function, context);
    const std::lock_guard lock(mine.mutex_);
    mine.held_ = nullptr;
  } else {
    for (int32_t block = 0; block < blocks && result == 0; ++block)
      result = call_block(function, context, block);
  }
  return result;
}

void AbandonablePool::abandon() {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = true;
  if (held_ != nullptr) replace_process_pool(held_);
}

int threads_wanted(const void* context) {
  const Job* job = Job::find(context);
  return job == nullptr ? 1 : job->wanted();
}

int num_threads() {
  const int threads = g_threads.load(std::memory_order_relaxed);
  const int all = threads > 0 ? threads : machine().threads;
  return t_thread_limit > 0 ? std::min(all, t_thread_limit) : all;
}

void set_num_threads(int threads) {
  g_threads.store(std::clamp(threads, 1, machine().cores), std::memory_order_relaxed);
}

bool inside_block() { return t_inside_block; }

int32_t claim_block(const void* context) {
  const Job* job = Job::find(context);
  return job == nullptr ? -1 : job->claim();
}

int threads_in_job(const void* context) {
  const Job* job = Job::find(context);
  return job == nullptr ? 1 : job->threads();
}

ScopedExecutor::ScopedExecutor(ParallelFor run, void* user)
    : outer_run_(t_executor), outer_user_(t_executor_user) {
  t_executor = run;
  t_executor_user = user;
}

ScopedExecutor::~ScopedExecutor() {
  t_executor = outer_run_;
  t_executor_user = outer_user_;
}

ScopedThreadLimit::ScopedThreadLimit(int threads) : outer_(t_thread_limit) {
  t_thread_limit = std::max(threads, 1);
}

ScopedThreadLimit::~ScopedThreadLimit() { t_thread_limit = outer_; }

}  // namespace pto
