// SPDX-License-Identifier: Apache-2.0
// Waits: lets the blocks of a launch wait, on any number of threads, one included.
//
//     std::unique_lock lock(waits.mutex());
//     waits.wait(lock, channel, {file, line}, [&] { return count > 0; },
//                [&] { return "for flag 3"; });
//     --count;                 // the lock is held, and count > 0
//     ++count;                 // another block, which then wakes the first:
//     waits.wake(channel);
//
// A block runs on its thread's own stack until it has to wait. Its thread then runs the others: it
// resumes blocks that can go on and begins new ones, each on a fiber, and comes back to the first
// when that can go on. A kernel that never waits therefore never meets a fiber.
// When all threads of the job have nothing left to run, the launch ends with a verdict: the text
// names every block that waits, for what and where, and each of them is unwound by an exception.
// A thread begins more than its share of the blocks only when others have not come for kLate_us:
// blocks stay where they began. All cores of a block run on one thread.
// Another thread or process may serve a block that waits for memory (a signal): the verdict then
// comes after kOwnGrace_ms, or after kOthersGrace_ms while another thread launches or has waited,
// and where other processes share the memory. Outside launches a wait blocks its thread, at most
// kOutside_ms.
//
// Invariant: a fiber stays on its thread. The state that a condition reads changes under mutex(),
// except where the condition waits in memory().
// Thread safety: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pto/launch/block.hpp"
#include "pto/launch/fiber.hpp"

namespace pto {

struct Place {
  const char* file;
  int32_t line;
};
std::string text(const Place& place);

// Prints "block 3"; in a launch with cores "block 3 (cube)", "block 3 (vector 1)".
std::string text_of_core(const Launch& launch, int32_t position);

// Unwinds a block whose launch has failed; no std::exception, so that a kernel's own handlers let
// it pass.
struct Stopped {};

// A block on a stack of its own.
struct BlockFiber {
  Fiber fiber;
  Block block;
  unsigned float_state = 0;
  ScratchStack scratch;
  BlockMemory memory;
  Launch* launch = nullptr;
  int32_t position = 0;
  int32_t code = 0;
};

// States that other processes write the memory that blocks of this one wait for.
void share_memory_with_processes();

class Channel;

// A waiting block's condition, over state under the mutex, and its words.
struct Waiter {
  bool (*holds)(const void* condition);
  std::string (*describe)(const void* description);
  const void* condition;
  const void* description;
  Place place;
  int32_t position = 0;
  Channel* channel = nullptr;
  Worker* worker = nullptr;
  BlockFiber* fiber = nullptr;  // null: on its thread's stack
  bool is_ready = false;
  std::list<Waiter*>::iterator entry = {};  // among all waiters
};

// The blocks that wait for one thing.
class Channel {
 private:
  friend class Waits;
  std::vector<Waiter*> waiters_;
};

// A thread with a block that has waited, until that block ends.
class Worker {
 private:
  friend class Waits;
  std::deque<BlockFiber*> ready_;
  std::deque<int32_t> cores_;     // unstarted cores of blocks that this thread has begun
  int32_t* next_core_ = nullptr;  // for the block on the thread's own stack
  int fibers_ = 0;                // begun and not ended
  int begun_ = 1;                 // blocks, the thread's own included
  bool holds_back_ = false;       // leaves blocks to threads that are to come
  bool takes_all_ = false;
  int32_t code_ = 0;  // the first non-zero code of its fibers
  std::condition_variable bell_;
  std::atomic<bool> rung_{false};
};

class Waits {
 public:
  static constexpr int kOwnGrace_ms = 50, kOthersGrace_ms = 10'000, kOutside_ms = 10'000;
  static constexpr int kLate_us = 100;

  explicit Waits(Launch* launch) : launch_(launch) {}  // null: outside launches

  std::mutex& mutex() { return mutex_; }

  // Returns when holds() does; throws Stopped when the launch has failed, pto::Error outside
  // launches.
  template <class Holds, class Describe>
  void wait(std::unique_lock<std::mutex>& lock, Channel& channel, Place place, const Holds& holds,
            const Describe& describe) {
    if (holds()) return;
    Waiter waiter{[](const void* f) { return bool((*static_cast<const Holds*>(f))()); },
                  [](const void* f) { return std::string((*static_cast<const Describe*>(f))()); },
                  &holds, &describe, place};
    wait(lock, channel, waiter);
  }

  // Returns the channel of conditions that memory decides, whoever writes it: nobody needs to wake
  // it.
  Channel& memory() { return memory_; }

  // Lets the blocks of the channel look again. The caller holds the mutex.
  void wake(Channel& channel);

  // Unwinds every block that waits, since the launch has failed. Takes the mutex.
  void stop();

  // Runs the fibers that blocks on this thread have begun to their ends; returns their first
  // non-zero code.
  int32_t finish_fibers();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void wait(Lock& lock, Channel& channel, Waiter& waiter);
  template <class Until>
  void run_others(Lock& lock, Worker& worker, const Until& until);
  bool run_ready(Lock& lock, Worker& worker);
  bool begin_block(Lock& lock, Worker& worker, int64_t idle_ns);
  int32_t next_core(Worker& worker, int64_t idle_ns);
  void resume(Lock& lock, Worker& worker, BlockFiber* fiber);
  void sleep(Lock& lock, Worker& worker, int64_t idle_ns);
  void make_ready(Waiter& waiter);
  bool look_at_memory();
  bool is_dead(const Worker& worker);
  void stop_all();
  std::string verdict() const;

  Launch* const launch_;
  std::mutex mutex_;
  std::list<Waiter*> waiting_;  // all that are not ready, in the order of their waiting
  Channel memory_;
  int ready_ = 0;   // woken and not yet running
  int asleep_ = 0;  // threads
  int64_t quiet_since_ = 0;
};

}  // namespace pto
