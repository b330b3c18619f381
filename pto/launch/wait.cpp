// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/wait.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "pto/base/clock.hpp"
#include "pto/base/error.hpp"
#include "pto/base/machine.hpp"
#include "pto/launch/pool.hpp"

namespace pto {
namespace {

constexpr int64_t kSpinMax_ns = 50'000;

std::atomic<bool> is_memory_shared{false};

int64_t spin_ns() {
  static const int64_t ns = std::min(kSpinMax_ns, int64_t{machine().spin_us} * 1000);
  return num_threads() > machine().cores ? 0 : ns;
}

unsigned float_state() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr();
#else
  return 0;
#endif
}

void set_float_state([[maybe_unused]] unsigned state) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(state);
#endif
}

// A thread's ended fibers keep their stacks for its next blocks.
constexpr size_t kIdleFibers = 64;
std::vector<std::unique_ptr<BlockFiber>>& idle_fibers() {
  static thread_local std::vector<std::unique_ptr<BlockFiber>> fibers;
  return fibers;
}

std::unique_ptr<BlockFiber> take_fiber() {
  auto& idle = idle_fibers();
  if (idle.empty()) return std::make_unique<BlockFiber>();
  std::unique_ptr<BlockFiber> fiber = std::move(idle.back());
  idle.pop_back();
  return fiber;
}

void give_fiber(std::unique_ptr<BlockFiber> fiber) {
  fiber->memory.free();
  auto& idle = idle_fibers();
  if (idle.size() < kIdleFibers) idle.push_back(std::move(fiber));
}

void enter_fiber(void* given) {
  auto* fiber = static_cast<BlockFiber*>(given);
  fiber->code = run_block(*fiber->launch, fiber->position);
}

}  // namespace

void share_memory_with_processes() { is_memory_shared.store(true); }

std::string text(const Place& place) {
  if (place.file == nullptr) return "an instruction";
  return std::string(place.file) + ":" + std::to_string(place.line);
}

std::string text_of_core(const Launch& launch, int32_t position) {
  const int32_t cores = launch.cores_per_block(), core = position % cores;
  std::string all = "block " + std::to_string(position / cores);
  if (cores == 1) return all;
  if (launch.has_cube && core == 0) return all + " (cube)";
  return all + " (vector " + std::to_string(core - launch.has_cube) + ")";
}

void Waits::wait(Lock& lock, Channel& channel, Waiter& waiter) {
  std::unique_ptr<Worker> visitor;  // outside launches the thread has no blocks to keep
  Worker* worker = t_block.worker;
  if (worker == nullptr) {
    worker = new Worker;
    if (launch_ == nullptr) {
      visitor.reset(worker);
      count_thread_as_rank();
    } else {
      t_block.worker = worker;
      worker->next_core_ = t_block.next_core;
    }
  }
  const int64_t end = now_ns() + int64_t{kOutside_ms} * 1'000'000;
  waiter.position = t_block.position;
  waiter.channel = &channel;
  waiter.worker = worker;
  waiter.fiber = t_block.fiber;
  do {
    if (launch_ != nullptr && launch_->has_failed.load()) throw Stopped{};
    if (launch_ == nullptr && now_ns() > end) {
      fail({"waited " + std::to_string(kOutside_ms / 1000) + " s at " + text(waiter.place) + " " +
                waiter.describe(waiter.description),
            "no thread set, pushed or notified in that time", "let another thread do so"},
           ErrorKind::Runtime);
    }
    waiter.is_ready = false;
    channel.waiters_.push_back(&waiter);
    waiter.entry = waiting_.insert(waiting_.end(), &waiter);
    if (waiter.fiber != nullptr) {
      lock.unlock();
      Fiber::suspend(waiter.fiber->fiber);
      lock.lock();
    } else {
      run_others(lock, *worker, [&] {
        if (launch_ == nullptr && !waiter.is_ready && now_ns() > end) make_ready(waiter);
        return waiter.is_ready;
      });
      --ready_;
    }
  } while (!waiter.holds(waiter.condition));
}

void Waits::make_ready(Waiter& waiter) {
  std::erase(waiter.channel->waiters_, &waiter);
  waiting_.erase(waiter.entry);
  waiter.is_ready = true;
  ++ready_;
  quiet_since_ = 0;
  if (waiter.fiber != nullptr) waiter.worker->ready_.push_back(waiter.fiber);
  waiter.worker->rung_.store(true, std::memory_order_release);
  waiter.worker->bell_.notify_one();
}

void Waits::wake(Channel& channel) {
  std::vector<Waiter*> woken;
  woken.swap(channel.waiters_);
  for (Waiter* waiter : woken) make_ready(*waiter);
}

void Waits::stop_all() {
  while (!waiting_.empty()) wake(*waiting_.front()->channel);
}

void Waits::stop() {
  const std::lock_guard lock(mutex_);
  stop_all();
}

int32_t Waits::finish_fibers() {
  Lock lock(mutex_);
  const std::unique_ptr<Worker> worker(t_block.worker);
  t_block.worker = nullptr;
  run_others(lock, *worker, [&] {
    return worker->fibers_ == 0 && (worker->cores_.empty() || launch_->has_failed.load());
  });
  return worker->code_;
}

// The loop of a thread whose own block waits or has ended. Holds the lock when it returns.
template <class Until>
void Waits::run_others(Lock& lock, Worker& worker, const Until& until) {
  int64_t idle_since = 0;
  while (!until()) {
    worker.rung_.store(false, std::memory_order_relaxed);
    const int64_t idle_ns = idle_since == 0 ? 0 : now_ns() - idle_since;
    if (run_ready(lock, worker) || begin_block(lock, worker, idle_ns)) {
      idle_since = 0;
      continue;
    }
    if (look_at_memory()) continue;
    const int64_t now = now_ns();
    if (is_dead(worker)) {
      const bool by_others = is_memory_shared.load() || others_launch(*launch_);
      const int grace = by_others ? kOthersGrace_ms : kOwnGrace_ms;
      if (quiet_since_ == 0) quiet_since_ = now;
      const bool may_be_served = !memory_.waiters_.empty();
      if (!may_be_served || now - quiet_since_ > int64_t{grace} * 1'000'000) {
        launch_->keep(verdict().c_str());
        launch_->has_failed.store(true);
        stop_all();
        continue;
      }
    }
    if (idle_since == 0) idle_since = now;
    sleep(lock, worker, now - idle_since);
  }
}

bool Waits::run_ready(Lock& lock, Worker& worker) {
  if (worker.ready_.empty()) return false;
  BlockFiber* fiber = worker.ready_.front();
  worker.ready_.pop_front();
  --ready_;
  resume(lock, worker, fiber);
  return true;
}

// Returns an unstarted core, or -1: first of the thread's own blocks, then of the next block.
int32_t Waits::next_core(Worker& worker, int64_t idle_ns) {
  const int32_t cores = launch_->cores_per_block();
  if (worker.next_core_ != nullptr && *worker.next_core_ % cores != 0) {
    return (*worker.next_core_)++;
  }
  if (!worker.cores_.empty()) {
    const int32_t core = worker.cores_.front();
    worker.cores_.pop_front();
    return core;
  }
  const int threads = threads_wanted(launch_);
  if (!worker.takes_all_ && worker.begun_ >= (launch_->blocks + threads - 1) / threads) {
    worker.takes_all_ = idle_ns > int64_t{kLate_us} * 1000;
    worker.holds_back_ = !worker.takes_all_;
    if (worker.holds_back_) return -1;
  }
  const int32_t block = claim_block(launch_);
  if (block < 0) return -1;
  ++worker.begun_;
  for (int32_t core = 1; core < cores; ++core) worker.cores_.push_back(block * cores + core);
  return block * cores;
}

// Begins a core on a fiber, now that this thread has nothing else to do.
bool Waits::begin_block(Lock& lock, Worker& worker, int64_t idle_ns) {
  worker.holds_back_ = false;
  if (launch_ == nullptr || launch_->has_failed.load(std::memory_order_relaxed)) return false;
  const int32_t position = next_core(worker, idle_ns);
  if (position < 0) return false;
  BlockFiber* fiber = nullptr;
  try {
    fiber = take_fiber().release();
  } catch (const std::exception& error) {
    launch_->keep(error.what());
    launch_->has_failed.store(true);
    stop_all();
    if (worker.code_ == 0) worker.code_ = kBlockThrew;
    return true;
  }
  fiber->launch = launch_;
  fiber->position = position;
  fiber->block = {};
  fiber->block.worker = &worker;
  fiber->block.fiber = fiber;
  fiber->block.scratch = &fiber->scratch;
  fiber->block.memory = &fiber->memory;
  fiber->float_state = float_state();
  fiber->fiber.start(enter_fiber, fiber);
  ++worker.fibers_;
  resume(lock, worker, fiber);
  return true;
}

void Waits::resume(Lock& lock, Worker& worker, BlockFiber* fiber) {
  lock.unlock();
  const Block outer = t_block;
  const unsigned outer_float_state = float_state();
  t_block = fiber->block;
  set_float_state(fiber->float_state);
  fiber->fiber.resume();
  fiber->float_state = float_state();
  set_float_state(outer_float_state);
  fiber->block = t_block;
  t_block = outer;
  if (fiber->fiber.has_ended()) {
    --worker.fibers_;
    if (worker.code_ == 0) worker.code_ = fiber->code;
    give_fiber(std::unique_ptr<BlockFiber>(fiber));
  }
  lock.lock();
}

// Sleeps briefly: nobody rings for memory and for threads that have left, so the caller looks
// again.
void Waits::sleep(Lock& lock, Worker& worker, int64_t idle_ns) {
  const bool for_memory = !memory_.waiters_.empty();
  ++asleep_;
  if (const int64_t spin = spin_ns(); idle_ns < spin) {
    lock.unlock();
    const int64_t end = now_ns() + (for_memory ? 2'000 : spin - idle_ns);
    while (!worker.rung_.load(std::memory_order_acquire) && now_ns() < end) pause_core();
    lock.lock();
  } else if (!worker.rung_.load(std::memory_order_relaxed)) {
    const int64_t nap_max = for_memory ? 200'000 : 1'000'000;
    worker.bell_.wait_for(
        lock, std::chrono::nanoseconds(std::clamp<int64_t>(idle_ns / 4, 50'000, nap_max)));
  }
  --asleep_;
}

bool Waits::look_at_memory() {
  const std::vector<Waiter*> waiters = memory_.waiters_;
  bool found = false;
  for (Waiter* waiter : waiters) {
    if (!waiter->holds(waiter->condition)) continue;
    make_ready(*waiter);
    found = true;
  }
  return found;
}

// True when nobody can go on: this thread has nothing to run, all others sleep, and none was woken.
bool Waits::is_dead(const Worker& worker) {
  return launch_ != nullptr && !worker.holds_back_ && !waiting_.empty() && ready_ == 0 &&
         asleep_ + 1 >= threads_in_job(launch_);
}

std::string Waits::verdict() const {
  constexpr size_t kNamed = 16;
  std::vector<const Waiter*> waiters(waiting_.begin(), waiting_.end());
  std::sort(waiters.begin(), waiters.end(),
            [](const Waiter* a, const Waiter* b) { return a->position < b->position; });
  const auto all = static_cast<size_t>(launch_->positions());
  std::string what = "deadlock: ";
  for (size_t i = 0; i < std::min(waiters.size(), kNamed); ++i) {
    what += (i > 0 ? "; " : "") + text_of_core(*launch_, waiters[i]->position) + " waits " +
            waiters[i]->describe(waiters[i]->description) + " at " + text(waiters[i]->place);
  }
  if (waiters.size() > kNamed) {
    what += "; " + std::to_string(waiters.size() - kNamed) + " more wait";
  }
  if (waiters.size() < all) {
    size_t first = 0;  // the first that does not wait
    while (first < waiters.size() && waiters[first]->position == static_cast<int32_t>(first)) {
      ++first;
    }
    what += "; " + std::to_string(all - waiters.size()) + " of " + std::to_string(all) +
            " have ended, the first is " + text_of_core(*launch_, static_cast<int32_t>(first));
  }
  return Error({what, "every block that has not ended waits, so nobody can end the waiting",
                "make sets and waits, pushes and pops, and the barriers of all blocks match"})
      .what();
}

}  // namespace pto
