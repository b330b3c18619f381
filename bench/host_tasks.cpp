// SPDX-License-Identifier: Apache-2.0
// Tasks of level host from C++: what one more task costs, on one worker process and on two, and the
// way there and back. A task adds 1 to a number in shared memory; the sums are checked.
//
//     host_tasks PTO_WORKER          prints one JSON record a line
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "pto/tasks/processes/host_engine.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using pto::HostEngine;

constexpr int kTasks = 20'000, kTrips = 500, kRounds = 11;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Counters {
 public:
  Counters(const char* worker, int devices) : engine_(options(worker, devices)) {
    pto::ProgramImage image;
    image.kind = pto::ProgramKind::Collective;
    image.name = "add";
    program_ = engine_.add_program(image);
    for (int i = 0; i < devices; ++i) blocks_.push_back(engine_.heap()->allocate(64));
  }

  pto::TaskId add_one(int counter, int device) {
    pto_tensor view{};
    view.data = blocks_[size_t(counter)]->data();
    view.sizes = view.strides = &kOne;
    view.rank = 1;
    view.type_bits = 64;
    view.type_lanes = 1;
    const std::vector<pto::HostTensor> tensors{
        {blocks_[size_t(counter)], pto::Access::Update, view}};
    const uint64_t number[] = {1};
    const pto::HostMember member{device, tensors, number};
    pto::HostTaskSpec spec{};
    spec.program = program_;
    spec.name = "add";
    spec.members = {&member, 1};
    ++expected_;
    return engine_.submit(spec);
  }
  void check() const {
    int64_t sum = 0;
    for (const auto& block : blocks_) {
      int64_t number;
      std::memcpy(&number, block->data(), sizeof number);
      sum += number;
    }
    if (sum == expected_) return;
    std::fprintf(stderr, "%lld tasks ran, %lld were submitted\n", static_cast<long long>(sum),
                 static_cast<long long>(expected_));
    std::exit(1);
  }
  HostEngine& engine() { return engine_; }

 private:
  static constexpr int64_t kOne = 1;
  static pto::HostOptions options(const char* worker, int devices) {
    pto::HostOptions options;
    for (int i = 0; i < devices; ++i) options.devices.push_back(i);
    options.worker = {worker};
    options.memory_bytes = 1 << 24;
    return options;
  }
  HostEngine engine_;
  uint32_t program_;
  std::vector<std::shared_ptr<pto::SharedBlock>> blocks_;
  int64_t expected_ = 0;
};

// Seconds a task of many: each device counts for itself, or they take turns at one number.
double marginal(Counters& counters, int devices, bool take_turns) {
  const auto begin = Clock::now();
  counters.engine().begin_run({});
  for (int i = 0; i < kTasks; ++i) counters.add_one(take_turns ? 0 : i % devices, i % devices);
  counters.engine().end_run();
  return seconds_since(begin) / kTasks;
}

// Seconds for a task and the wait for it; `pause`: so long that the worker sleeps.
double round_trip(Counters& counters, std::chrono::microseconds pause) {
  double total = 0;
  const int trips = pause.count() > 0 ? kTrips / 10 : kTrips;
  counters.engine().begin_run({});
  for (int i = 0; i < trips; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto begin = Clock::now();
    counters.engine().wait_for(counters.add_one(0, 0));
    total += seconds_since(begin);
  }
  counters.engine().end_run();
  return total / trips;
}

template <class Measure>
void print(const char* name, int devices, const Measure& measure) {
  std::vector<double> samples;
  measure();
  for (int i = 0; i < kRounds; ++i) samples.push_back(measure());
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) { return samples[size_t(part * (kRounds - 1) + 0.5)]; };
  std::printf(
      "{\"case\": \"%s\", \"size\": [%d], \"dtype\": \"\", \"contender\": \"pto\", "
      "\"threads\": %d, \"median_s\": %.3e, \"p10_s\": %.3e, \"p90_s\": %.3e, "
      "\"ceiling_s\": null}\n",
      name, kTasks, devices, at(0.5), at(0.1), at(0.9));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  print("host_start", 1, [&] {
    const auto begin = Clock::now();
    const Counters started(words[1], 1);
    return seconds_since(begin);
  });
  {
    Counters one(words[1], 1);
    print("host_marginal", 1, [&] { return marginal(one, 1, false); });
    print("host_trip", 1, [&] { return round_trip(one, std::chrono::microseconds(0)); });
    print("host_trip_parked", 1, [&] { return round_trip(one, std::chrono::microseconds(2000)); });
    one.check();
  }
  Counters two(words[1], 2);
  print("host_marginal", 2, [&] { return marginal(two, 2, false); });
  print("host_turns", 2, [&] { return marginal(two, 2, true); });
  two.check();
  return 0;
}
