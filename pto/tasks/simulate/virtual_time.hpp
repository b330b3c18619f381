// SPDX-License-Identifier: Apache-2.0
// VirtualTime: runs actors on one thread, each with a clock of its own; the one with the lowest
// clock goes on.
//
//     VirtualTime time(7, true, 1 << 20);                   // seed, shaken, most steps
//     time.add([&] { time.pass(300); is_ready = true; });   // busy for 300 ns
//     time.add([&] { while (!is_ready) time.step(); });     // for as long as the seed draws
//     time.run();
//
// An actor is a fiber. It gives way only where it calls pass(), step() or sleep(). If time is
// shaken, the seed draws the lengths of steps, some of them long, so that actors take every order
// that threads or processes could take.
// Invariant: the same seed and actors give the same run in every process. A processor's reordering
// of memory is not simulated: the steps of all actors have one order.
// Thread safety: one thread, for one run.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "pto/launch/block.hpp"
#include "pto/launch/fiber.hpp"

namespace pto {

uint64_t mix_bits(uint64_t value);  // splitmix64, S. Vigna

class VirtualTime {
 public:
  class Actor {
   public:
    uint64_t clock = 0;
    size_t index = 0;  // in the order of add()

   private:
    friend class VirtualTime;
    std::function<void()> work;
    uint64_t ticket = 0;  // of its turn: an older one is void
    Fiber fiber;
    Block block;
    ScratchStack scratch;
  };

  VirtualTime(uint64_t seed, bool is_shaken, uint64_t steps_max)
      : seed_(seed), is_shaken_(is_shaken), steps_max_(steps_max), random_(mix_bits(seed)) {}
  ~VirtualTime() { abandon(); }

  Actor& add(std::function<void()> work, uint64_t at = 0);

  // Runs until every actor has ended, or one has called end(). Throws Error with the seed if the
  // others sleep for ever or take too many steps, and what an actor throws.
  void run();
  void end() { is_over_ = true; }  // the actors that are left are unwound

  // --- the running actor ---
  uint64_t now_ns() const { return current_ != nullptr ? current_->clock : last_ns_; }
  void pass(uint64_t ns);  // is busy for `ns`
  void step();             // is busy for as long as the seed draws
  void count_step();       // counts a step of the run's steps_max
  void sleep();            // until wake()
  void sleep_until(uint64_t ns);
  Actor& current() { return *current_; }

  void wake(Actor& actor, uint64_t at);
  uint64_t random() { return random_(); }
  uint64_t drawn_step();

  uint64_t steps() const { return steps_; }
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  struct Turn {
    uint64_t clock, order;  // breaks ties of clocks: drawn by the seed, or by entry
    Actor* actor;
    uint64_t ticket;
    bool operator<(const Turn& other) const {  // the queue's top is its greatest
      return clock != other.clock ? clock > other.clock : order > other.order;
    }
  };
  struct Abandoned {};  // unwinds an actor

  void enter(Actor& actor);
  void yield();
  void suspend();
  void resume(Actor& actor);
  void abandon();

  const uint64_t seed_;
  const bool is_shaken_;
  const uint64_t steps_max_;
  std::mt19937_64 random_;
  std::deque<std::unique_ptr<Actor>> actors_;
  std::priority_queue<Turn> turns_;
  Actor* current_ = nullptr;
  uint64_t last_ns_ = 0, entered_ = 0, steps_ = 0;
  bool is_abandoned_ = false, is_over_ = false;
  std::exception_ptr error_;
};

}  // namespace pto
