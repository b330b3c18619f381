// SPDX-License-Identifier: Apache-2.0
#include "pto/tasks/simulate/virtual_cores.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "pto/base/error.hpp"

namespace pto {
namespace {

int32_t fail_by_seed(const pto_args* args) {
  return args->services->fail(args->services, "failed by the seed");
}
int32_t throw_by_seed(const pto_args*) { throw std::runtime_error("thrown by the seed"); }

uint64_t mix(uint64_t value) {  // splitmix64, S. Vigna
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

}  // namespace

VirtualCores::VirtualCores(VirtualCoresOptions options)
    : options_(std::move(options)), random_(mix(options_.seed)) {}
VirtualCores::~VirtualCores() = default;

int64_t VirtualCores::ready_places(int64_t window, int workers) const {
  const int64_t any = window * workers;
  return int64_t(std::bit_ceil(uint64_t(options_.ready_max > 0 ? options_.ready_max : any)));
}

VirtualCores::Fate VirtualCores::fate_of(TaskId task) const {
  const double drawn = double(mix(options_.seed ^ mix(task)) >> 11) * 0x1p-53;
  if (drawn < options_.fails) return Fate::Fails;
  return drawn < options_.fails + options_.throws ? Fate::Throws : Fate::Runs;
}

void VirtualCores::run(int workers, void (*work)(void* engine, int worker), void* engine) {
  PTO_ASSERT(cores_.empty());
  work_ = work;
  engine_ = engine;
  for (int i = 0; i < workers; ++i) {
    cores_.push_back(std::make_unique<Core>());
    Core& core = *cores_.back();
    core.index = i;
    core.block.scratch = &core.scratch;
    enter(core);
  }
  const auto start = [this](Core& core) {
    core.fiber.start(
        [](void* cores) {
          auto& self = *static_cast<VirtualCores*>(cores);
          try {
            self.work_(self.engine_, self.current_->index);
          } catch (const Abandoned&) {
          }
        },
        this);
  };
  for (const auto& core : cores_) start(*core);
  while (!turns_.empty() && !is_abandoned_) {
    Core& core = *turns_.top().core;
    turns_.pop();
    resume(core);
    if (core.index == 0 && core.fiber.has_ended()) end(core);
  }
  const auto ended = std::count_if(cores_.begin(), cores_.end(),
                                   [](const auto& core) { return core->fiber.has_ended(); });
  if (ended == workers && !is_abandoned_) return;
  const bool is_endless = is_abandoned_;
  abandon();
  refuse(is_endless ? "has not ended after " + std::to_string(options_.steps_max) + " steps"
                    : "stands still: " + std::to_string(workers - ended) + " of " +
                          std::to_string(workers) + " workers sleep and nobody wakes them");
}

// Ends the run: the orchestrating worker has ended, so no task is left.
void VirtualCores::end(const Core& core) {
  end_ns_ = core.clock;
  if (options_.is_shaken) return;  // all of them were woken
  for (Core* one : asleep_) {
    one->clock = end_ns_;
    enter(*one);
  }
  asleep_.clear();
}

void VirtualCores::refuse(const std::string& what) const {
  fail({"the simulated run of seed " + std::to_string(options_.seed) + " " + what,
        "the engine's own steps were taken one at a time, in an order that threads may take",
        "simulate the same seed again to see how it comes about"},
       ErrorKind::Runtime);
}

// Makes every worker that has not ended unwind its stack.
void VirtualCores::abandon() {
  is_abandoned_ = true;
  for (const auto& core : cores_)
    if (!core->fiber.has_ended()) resume(*core);
}

void VirtualCores::resume(Core& core) {
  const Block outer = t_block;
  current_ = &core;
  t_block = core.block;
  core.fiber.resume();
  t_block = outer;
  current_ = nullptr;
}

void VirtualCores::suspend() {
  Core& core = *current_;
  core.block = t_block;
  Fiber::suspend(core.fiber);
  if (is_abandoned_) throw Abandoned();
}

void VirtualCores::enter(Core& core) {
  turns_.push({core.clock, options_.is_shaken ? random_() : entered_++, &core});
}

// Lets workers with earlier clocks go first.
void VirtualCores::yield() {
  if (is_abandoned_) throw Abandoned();
  if (turns_.empty() || turns_.top().clock > current_->clock) return;
  enter(*current_);
  suspend();
}

// Draws the time of a step: mostly little, sometimes as long as many steps of others: a stall.
uint64_t VirtualCores::drawn_step() {
  const uint64_t drawn = random_();
  const uint64_t kind = drawn & 255, value = drawn >> 8;
  if (kind == 0) return value % 100000;
  if (kind < 16) return value % 4000;
  return kind < 128 ? value % 64 : 0;
}

void VirtualCores::at(Step step, Task*) {
  if (++steps_ > options_.steps_max) is_abandoned_ = true;
  current_->clock += options_.is_shaken ? drawn_step() : options_.step_ns[size_t(step)];
  yield();
}

void VirtualCores::pass(uint64_t ns) {
  current_->clock += ns;
  yield();
}

int32_t VirtualCores::call(Task& task, int32_t block, const std::function<int32_t()>& real) {
  ++called_;
  const uint64_t ns = options_.duration ? options_.duration(task, block) : random_() % 2000;
  if (!options_.runs_kernels) {
    pass(ns);
    return 0;
  }
  if (const Fate fate = fate_of(task.id); fate != Fate::Runs) {
    faulty_.push_back(std::make_unique<TaskKernel>(
        TaskKernel{fate == Fate::Fails ? fail_by_seed : throw_by_seed, task.kernel->name}));
    task.kernel = faulty_.back().get();
  }
  const uint64_t before = options_.is_shaken ? random_() % (ns + 1) : 0;
  pass(before);
  const int32_t code = real();
  pass(ns - before);
  return code;
}

void VirtualCores::sleep(const std::atomic<uint32_t>& events, uint32_t seen) {
  if (is_abandoned_) throw Abandoned();
  if (events.load() != seen) return;
  Core& core = *current_;
  core.is_asleep = true;
  core.slept_at = core.clock;
  core.events = &events;
  core.seen = seen;
  asleep_.push_back(&core);
  suspend();
}

bool VirtualCores::wake_core(Core& core) {
  core.is_asleep = false;
  const uint64_t now = std::max(core.clock, current_->clock);
  if (options_.is_shaken)
    core.clock = now + drawn_step();
  else
    core.clock = now + (now - core.slept_at < options_.soon_ns ? options_.wake_soon_ns
                                                               : options_.wake_late_ns);
  enter(core);
  return true;
}

// Shaken cores all wake, as threads do. Otherwise only worker 0 wakes, which may wait for a task,
// and one that may take it: that one works until no task is left, so no others are needed.
void VirtualCores::wake(const std::atomic<uint32_t>& events) {
  const auto is_meant = [&](const Core& core) {
    return core.events == &events && events.load() != core.seen;
  };
  if (options_.is_shaken) {
    std::erase_if(asleep_, [&](Core* core) { return is_meant(*core) && wake_core(*core); });
    return;
  }
  if (Core& first = *cores_[0]; first.is_asleep && is_meant(first)) {
    std::erase(asleep_, &first);
    wake_core(first);
  }
  if (asleep_.empty() || !is_meant(*asleep_.back())) return;
  wake_core(*asleep_.back());
  asleep_.pop_back();
}

}  // namespace pto
