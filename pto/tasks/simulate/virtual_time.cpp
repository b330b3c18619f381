// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/simulate/virtual_time.hpp"

#include <algorithm>

#include "pto/base/error.hpp"

namespace pto {

uint64_t mix_bits(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

VirtualTime::Actor& VirtualTime::add(std::function<void()> work, uint64_t at) {
  actors_.push_back(std::make_unique<Actor>());
  Actor& actor = *actors_.back();
  actor.clock = at;
  actor.index = actors_.size() - 1;
  actor.work = std::move(work);
  actor.block.scratch = &actor.scratch;
  actor.fiber.start(
      [](void* time) {
        auto& self = *static_cast<VirtualTime*>(time);
        try {
          self.current_->work();
        } catch (const Abandoned&) {
        } catch (...) {
          if (!self.error_) self.error_ = std::current_exception();
          self.is_over_ = true;
        }
      },
      this);
  enter(actor);
  return actor;
}

void VirtualTime::run() {
  while (!turns_.empty() && !is_abandoned_ && !is_over_) {
    const Turn turn = turns_.top();
    turns_.pop();
    if (turn.ticket != turn.actor->ticket) continue;
    turn.actor->clock = turn.clock;
    resume(*turn.actor);
  }
  const auto asleep = std::count_if(actors_.begin(), actors_.end(),
                                    [](const auto& actor) { return !actor->fiber.has_ended(); });
  const bool is_endless = is_abandoned_;
  abandon();
  if (error_) std::rethrow_exception(error_);
  if (is_over_ || (asleep == 0 && !is_endless)) return;
  refuse(is_endless ? "has not ended after " + std::to_string(steps_max_) + " steps"
                    : "stands still: " + std::to_string(asleep) + " of " +
                          std::to_string(actors_.size()) + " workers sleep and nobody wakes them");
}

void VirtualTime::refuse(const std::string& what) const {
  fail({"the simulated run of seed " + std::to_string(seed_) + " " + what,
        "the engine's own steps were taken one at a time, in an order that threads may take",
        "simulate the same seed again to see how it comes about"},
       ErrorKind::Runtime);
}

// Makes every actor that has not ended unwind its stack.
void VirtualTime::abandon() {
  is_abandoned_ = true;
  for (const auto& actor : actors_)
    if (!actor->fiber.has_ended()) resume(*actor);
}

void VirtualTime::resume(Actor& actor) {
  const Block outer = t_block;
  current_ = &actor;
  t_block = actor.block;
  actor.fiber.resume();
  t_block = outer;
  current_ = nullptr;
  last_ns_ = actor.clock;
}

void VirtualTime::suspend() {
  Actor& actor = *current_;
  actor.block = t_block;
  Fiber::suspend(actor.fiber);
  if (is_abandoned_) throw Abandoned();
}

void VirtualTime::enter(Actor& actor) {
  turns_.push({actor.clock, is_shaken_ ? random_() : entered_++, &actor, ++actor.ticket});
}

// Lets actors with earlier clocks go first.
void VirtualTime::yield() {
  if (is_abandoned_) throw Abandoned();
  if (turns_.empty() || turns_.top().clock > current_->clock) return;
  enter(*current_);
  suspend();
}

// Draws the time of a step: mostly little, sometimes as long as many steps of others: a stall.
uint64_t VirtualTime::drawn_step() {
  const uint64_t drawn = random_();
  const uint64_t kind = drawn & 255, value = drawn >> 8;
  if (kind == 0) return value % 100000;
  if (kind < 16) return value % 4000;
  return kind < 128 ? value % 64 : 0;
}

void VirtualTime::count_step() {
  if (++steps_ > steps_max_) is_abandoned_ = true;
}

void VirtualTime::step() {
  count_step();
  pass(drawn_step());
}

void VirtualTime::pass(uint64_t ns) {
  current_->clock += ns;
  yield();
}

void VirtualTime::sleep() {
  if (is_abandoned_) throw Abandoned();
  suspend();
}

void VirtualTime::sleep_until(uint64_t ns) {
  if (is_abandoned_) throw Abandoned();
  Actor& actor = *current_;
  turns_.push(
      {std::max(ns, actor.clock), is_shaken_ ? random_() : entered_++, &actor, ++actor.ticket});
  suspend();
}

void VirtualTime::wake(Actor& actor, uint64_t at) {
  actor.clock = std::max(actor.clock, at);
  enter(actor);
}

}  // namespace pto
