// SPDX-License-Identifier: Apache-2.0
// Measures what scheduling costs on this machine: the least of several rounds, since other
// processes run too.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "pto/base/clock.hpp"
#include "pto/tasks/cores/graph.hpp"
#include "pto/tasks/cores/run_state.hpp"
#include "pto/tasks/simulate/simulate.hpp"

namespace pto {
namespace {

constexpr int kTasks = 100;  // fewer than the orchestrating thread submits before it runs one
constexpr int kRounds = 20;

// A task that moves takes its cache lines along; see Engine::is_worth_a_visit.
constexpr uint32_t kStealNs = 200;
// The time of a cache line from one core to another.
constexpr uint64_t kTransferNs = 100;

int32_t nothing(const pto_args*) { return 0; }
const TaskKernel kNothing{nothing, "nothing"};

double ns_since(uint64_t start) { return double(read_ticks() - start) * ns_of_a_tick(); }

// Makes this thread the only worker of a run whose tasks go through its deque, as they do when
// other workers may take them.
class OneWorker final : public Steps {
 public:
  void run(int, void (*work)(void* engine, int worker), void* engine) override { work(engine, 0); }
  void at(Step, Task*) override {}
  int32_t call(Task&, int32_t, const std::function<int32_t()>& real) override { return real(); }
  void sleep(const std::atomic<uint32_t>&, uint32_t) override {}
  void wake(const std::atomic<uint32_t>&) override {}
  uint64_t now_ns() const override { return 0; }
  int64_t ready_places(int64_t window, int) const override { return window; }
};

void measure_tasks(SchedulingCosts& costs) {
  double submit = 1e9, task = 1e9;
  OneWorker steps;
  RunOptions options;
  options.workers = 1;
  options.window = 128;
  options.steps = &steps;
  for (int round = 0; round < kRounds; ++round) {
    uint64_t submitted = 0;
    run_tasks(options, [&](TaskRun& run) {
      const uint64_t start = read_ticks();
      for (int i = 0; i < kTasks; ++i) run.submit({&kNothing, {}, {}, {}});
      submit = std::min(submit, ns_since(start) / kTasks);
      submitted = read_ticks();
    });
    task = std::min(task, ns_since(submitted) / kTasks);
  }
  costs.submit_ns = uint32_t(submit);
  costs.task_ns = uint32_t(task);
}

int32_t submit_nothing(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  for (int i = 0; i < kTasks; ++i) o.submit("nothing", {});
  return 0;
}

void measure_replay(SchedulingCosts& costs) {
  const OrchestrationProgram program{submit_nothing, {{"nothing", kNothing}}};
  TaskGraph graph(program, {}, {});
  RunOptions options;
  options.workers = 1;
  double task = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t start = read_ticks();
    graph.replay({}, options);
    task = std::min(task, ns_since(start) / kTasks);
  }
  costs.replay_ns = uint32_t(task);
}

// Two threads sleep and wake each other in turn; a wake-up costs half a round trip. A spinning
// thread might hold the core on which the other wakes.
void measure_waking(SchedulingCosts& costs) {
  constexpr uint32_t kBells = 20;
  std::atomic<uint32_t> bell{0}, heard{0};
  std::thread other([&] {
    for (uint32_t i = 0; i < kBells; ++i) {
      bell.wait(i);
      heard.store(i + 1);
      heard.notify_one();
    }
  });
  double both = 1e9;
  for (uint32_t i = 0; i < kBells; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // the other sleeps by then
    const uint64_t start = read_ticks();
    bell.store(i + 1);
    bell.notify_one();
    heard.wait(i);
    both = std::min(both, ns_since(start));
  }
  other.join();
  costs.wake_soon_ns = kTransferNs;
  costs.wake_late_ns = uint64_t(both / 2);
}

void measure_looking(SchedulingCosts& costs) {
  constexpr int kLooks = 1000;
  double look = 1e9;
  const ReadyDeque<Task> empty(2);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t start = read_ticks();
    for (int i = 0; i < kLooks; ++i) {
      if (empty.size() > 0) break;
      for (int k = 0; k < Engine::kPauses; ++k) pause_core();
    }
    look = std::min(look, ns_since(start) / kLooks);
  }
  costs.look_ns = uint32_t(look) + 1;
  costs.soon_ns = uint64_t(look * Engine::kSpins);
  costs.steal_ns = kStealNs;
}

}  // namespace

const SchedulingCosts& scheduling_costs() {
  static const SchedulingCosts costs = [] {
    SchedulingCosts measured{};
    ns_of_a_tick();
    measure_tasks(measured);
    measure_replay(measured);
    measure_waking(measured);
    measure_looking(measured);
    return measured;
  }();
  return costs;
}

}  // namespace pto
