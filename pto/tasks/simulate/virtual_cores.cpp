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

}  // namespace

VirtualCores::VirtualCores(VirtualCoresOptions options)
    : options_(std::move(options)), time_(options_.seed, options_.is_shaken, options_.steps_max) {}
VirtualCores::~VirtualCores() = default;

int64_t VirtualCores::ready_places(int64_t window, int workers) const {
  const int64_t any = window * workers;
  return int64_t(std::bit_ceil(uint64_t(options_.ready_max > 0 ? options_.ready_max : any)));
}

VirtualCores::Fate VirtualCores::fate_of(TaskId task) const {
  const double drawn = double(mix_bits(options_.seed ^ mix_bits(task)) >> 11) * 0x1p-53;
  if (drawn < options_.fails) return Fate::Fails;
  return drawn < options_.fails + options_.throws ? Fate::Throws : Fate::Runs;
}

void VirtualCores::run(int workers, void (*work)(void* engine, int worker), void* engine) {
  PTO_ASSERT(cores_.empty());
  cores_.resize(size_t(workers));
  for (int i = 0; i < workers; ++i)
    cores_[size_t(i)].actor = &time_.add([this, work, engine, i] {
      work(engine, i);
      if (i == 0) end();
    });
  time_.run();
}

// The orchestrating worker has ended, so no task is left.
void VirtualCores::end() {
  has_ended_ = true;
  end_ns_ = time_.now_ns();
  if (options_.is_shaken) return;  // all of them were woken
  for (Core* one : asleep_) time_.wake(*one->actor, end_ns_);
  asleep_.clear();
}

void VirtualCores::at(Step step, Task*) {
  time_.count_step();
  time_.pass(options_.is_shaken ? time_.drawn_step() : options_.step_ns[size_t(step)]);
}

int32_t VirtualCores::call(Task& task, int32_t block, const std::function<int32_t()>& real) {
  ++called_;
  const uint64_t ns = options_.duration ? options_.duration(task, block) : time_.random() % 2000;
  if (!options_.runs_kernels) {
    pass(ns);
    return 0;
  }
  if (const Fate fate = fate_of(task.id); fate != Fate::Runs) {
    faulty_.push_back(std::make_unique<TaskKernel>(
        TaskKernel{fate == Fate::Fails ? fail_by_seed : throw_by_seed, task.kernel->name}));
    task.kernel = faulty_.back().get();
  }
  const uint64_t before = options_.is_shaken ? time_.random() % (ns + 1) : 0;
  pass(before);
  const int32_t code = real();
  pass(ns - before);
  return code;
}

void VirtualCores::sleep(const std::atomic<uint32_t>& events, uint32_t seen) {
  if (events.load() != seen) return;
  Core& core = cores_[time_.current().index];
  core.is_asleep = true;
  core.slept_at = time_.now_ns();
  core.events = &events;
  core.seen = seen;
  asleep_.push_back(&core);
  time_.sleep();
}

void VirtualCores::wake_core(Core& core) {
  core.is_asleep = false;
  const uint64_t now = std::max(core.slept_at, time_.now_ns());
  const bool is_soon = now - core.slept_at < options_.soon_ns;
  const uint64_t way = is_soon ? options_.wake_soon_ns : options_.wake_late_ns;
  time_.wake(*core.actor, now + (options_.is_shaken ? time_.drawn_step() : way));
}

// Shaken cores all wake, as threads do. Otherwise only worker 0 wakes, which may wait for a task,
// and one that may take it: that one works until no task is left, so no others are needed.
void VirtualCores::wake(const std::atomic<uint32_t>& events) {
  const auto wake_if_meant = [&](Core* core) {
    const bool is_meant = core->events == &events && events.load() != core->seen;
    if (is_meant) wake_core(*core);
    return is_meant;
  };
  if (options_.is_shaken) {
    std::erase_if(asleep_, wake_if_meant);
    return;
  }
  if (Core& first = cores_[0]; first.is_asleep && wake_if_meant(&first))
    std::erase(asleep_, &first);
  if (!asleep_.empty() && wake_if_meant(asleep_.back())) asleep_.pop_back();
}

}  // namespace pto
