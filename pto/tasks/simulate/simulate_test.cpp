// SPDX-License-Identifier: Apache-2.0
// Tests laws of simulated times, on made-up records and on traced runs.
#include "pto/tasks/simulate/simulate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/engine.hpp"
#include "tests/deep.hpp"

namespace pto::simulate_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr SchedulingCosts kFree{};

uint64_t time_of(const RecordedRun& run, int cores, const SchedulingCosts& costs = kFree) {
  return simulate(run, {cores, &costs}).duration_ns;
}

RecordedTask task_of(TaskId self, uint64_t ns, std::vector<TaskId> after = {}, size_t blocks = 1) {
  RecordedTask task;
  task.block_ns.assign(blocks, ns);
  for (TaskId from : after) task.follows.push_back({from, self, EdgeCause::Data});
  return task;
}

// A run in which 1 comes before 2 and 3, and these before 4; 3 is the long one.
RecordedRun diamond() {
  RecordedRun run;
  run.tasks = {task_of(1, 100), task_of(2, 100, {1}), task_of(3, 3000, {1}),
               task_of(4, 100, {2, 3})};
  return run;
}

RecordedRun random_run(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  RecordedRun run;
  run.is_replay = below(2) == 0;
  run.tasks.resize(1 + below(100));
  for (size_t i = 0; i < run.tasks.size(); ++i) {
    std::vector<TaskId> after;
    for (uint64_t n = below(4); i > 0 && n > 0; --n) after.push_back(1 + below(i));
    run.tasks[i] = task_of(i + 1, below(5000), after, below(6) == 0 ? 1 + below(5) : 1);
  }
  return run;
}

TEST(Simulate, gives_the_times_that_a_small_graph_has) {
  std::vector<TaskId> critical;
  EXPECT_EQ(critical_path(diamond(), &critical), 3200u);
  EXPECT_THAT(critical, ElementsAre(1, 3, 4));
  EXPECT_EQ(time_of(diamond(), 1), 3300u);
  EXPECT_EQ(time_of(diamond(), 2), 3200u);
  EXPECT_EQ(time_of(RecordedRun(), 4), 0u);
  RecordedRun blocks;
  blocks.tasks = {task_of(1, 1000, {}, 8)};
  EXPECT_EQ(time_of(blocks, 1), 8000u);
  EXPECT_EQ(time_of(blocks, 4), 2000u);
  EXPECT_EQ(time_of(blocks, 1000), 1000u);
}

TEST(Simulate, keeps_to_the_bounds_of_greedy_schedules) {
  const int rounds = rounds_of(300, 100000);
  for (uint64_t seed = 1; seed <= uint64_t(rounds); ++seed) {
    const RecordedRun run = random_run(seed);
    for (int cores : {1, 2, 3, 8, 64}) {
      const SimulatedTime time = simulate(run, {cores, &kFree});
      EXPECT_GE(time.duration_ns, time.critical_ns) << "seed " << seed;
      EXPECT_GE(time.duration_ns * uint64_t(cores), time.busy_ns) << "seed " << seed;
      // Source of the bound: R. Graham, "Bounds on multiprocessing timing anomalies", 1969.
      ASSERT_LE(time.duration_ns, time.busy_ns / uint64_t(cores) + time.critical_ns + 1)
          << "seed " << seed << ", " << cores << " cores";
      EXPECT_TRUE(cores > 1 || time.duration_ns == time.busy_ns) << "seed " << seed;
    }
  }
}

TEST(Simulate, counts_what_the_orchestration_takes_and_awaits) {
  RecordedRun run;
  run.tasks = {task_of(1, 1000), task_of(2, 1000), task_of(3, 1000)};
  for (RecordedTask& task : run.tasks) task.gap_ns = 300, task.submit_ns = 200;
  EXPECT_EQ(time_of(run, 1), 4500u);
  EXPECT_EQ(time_of(run, 8), 2500u);  // the third is submitted at 1500
  run.tasks[2].awaited = {1};         // which ends at 1500
  run.tasks[2].gap_ns = 0;
  EXPECT_EQ(time_of(run, 8), 3200u);  // meanwhile it runs the second itself, until 2000
}

TEST(Simulate, lets_tasks_that_reduce_take_turns) {
  RecordedRun run;
  for (TaskId id = 1; id <= 8; ++id) {
    run.tasks.push_back(task_of(id, 1000));
    run.tasks.back().turns = {int64_t(id % 2)};
  }
  EXPECT_EQ(time_of(run, 8), 4000u);
}

TEST(Simulate, lets_costs_of_scheduling_limit_small_tasks) {
  RecordedRun run;
  for (TaskId id = 1; id <= 64; ++id) run.tasks.push_back(task_of(id, 1000));
  SchedulingCosts costs{};
  costs.task_ns = 500;
  EXPECT_EQ(time_of(run, 1, costs), 64 * 1500u);
  EXPECT_GE(time_of(run, 4, costs), 16 * 1500u);
  costs.steal_ns = 2000;
  EXPECT_GT(time_of(run, 4, costs), 16 * 1500u + 2000);
}

TEST(Simulate, predicts_a_traced_run_from_its_record) {
  const TaskKernel nothing{[](const pto_args*) -> int32_t { return 0; }, "nothing"};
  RunTrace trace;
  trace.level = kEdges;
  RunOptions options;
  options.workers = 1;
  options.trace = &trace;
  run_tasks(options, [&](TaskRun& run) {
    for (int i = 0; i < 40; ++i) run.submit({&nothing, {}, {}, {}});
  });
  RecordedRun run = record_of(trace);
  ASSERT_EQ(run.tasks.size(), 40u);
  for (RecordedTask& task : run.tasks) {  // its time on an idle machine
    ASSERT_EQ(task.block_ns.size(), 1u);
    task.block_ns = {200000};
    task.gap_ns = task.submit_ns = 0;
  }
  const SchedulingCosts free{};
  const SimulatedTime one = simulate(run, {1, &free}), four = simulate(run, {4, &free});
  EXPECT_GE(one.duration_ns, one.busy_ns);
  EXPECT_LE(one.duration_ns, one.busy_ns + one.busy_ns / 4);
  EXPECT_GE(four.duration_ns, one.busy_ns / 4);
  // The longest task and the orchestration are what no number of cores can share.
  uint64_t longest_ns = 0, alone_ns = 0;
  for (const RecordedTask& task : run.tasks) {
    for (uint64_t ns : task.block_ns) longest_ns = std::max(longest_ns, ns);
    alone_ns += task.gap_ns + task.submit_ns;
  }
  EXPECT_LT(four.duration_ns, one.duration_ns / 2 + longest_ns + alone_ns);
}

TEST(Simulate, measures_what_scheduling_costs_here) {
  const SchedulingCosts& costs = scheduling_costs();
  EXPECT_GT(costs.submit_ns, 0u);
  EXPECT_GT(costs.task_ns, 0u);
  EXPECT_GT(costs.replay_ns, 0u);
  EXPECT_GT(costs.wake_late_ns, 0u);
  EXPECT_GT(costs.soon_ns, costs.look_ns);
}

TEST(Simulate, refuses_traces_that_miss_what_it_needs) {
  const auto error_of = [](const RunTrace& trace) {
    try {
      record_of(trace);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  RunTrace trace;
  EXPECT_THAT(error_of(trace), HasSubstr("a trace of level 1 cannot be simulated"));
  trace.level = kEdges;
  EXPECT_EQ(error_of(trace), "");
  trace.dropped = 7;
  EXPECT_THAT(error_of(trace), HasSubstr("has lost records cannot be simulated: 7"));
  trace.is_bound = true;
  EXPECT_THAT(error_of(trace), HasSubstr("of level host"));
}

}  // namespace pto::simulate_test
