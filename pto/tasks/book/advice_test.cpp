// SPDX-License-Identifier: Apache-2.0
// Tests advice on records whose best change is known.
#include "pto/tasks/book/advice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pto::advice_test {

using testing::HasSubstr;

constexpr SchedulingCosts kFree{};

RecordedRun run_of(int workers) {
  RecordedRun run;
  run.workers = workers;
  run.kernels = {"(none)", "slow", "quick"};
  run.sites = {"", "orch.cpp:7", "orch.cpp:8"};
  return run;
}

void add(RecordedRun& run, uint16_t kernel, uint64_t ns, std::vector<TaskId> after = {},
         EdgeCause cause = EdgeCause::Data, uint32_t site = 0) {
  RecordedTask task;
  task.kernel = kernel;
  task.site = site;
  task.block_ns = {ns};
  for (TaskId from : after) task.follows.push_back({from, run.tasks.size() + 1, cause});
  run.tasks.push_back(task);
}

// The run's duration with the advised change of this kind, or without it if it is not advised.
uint64_t with(const Advice& advice, ChangeKind kind) {
  for (const Change& change : advice.changes)
    if (change.kind == kind) return change.duration_ns;
  return advice.duration_ns;
}

TEST(Advice, says_which_kernel_of_a_chain_should_be_faster) {
  RecordedRun run = run_of(4);
  for (TaskId i = 0; i < 10; ++i)
    add(run, i % 2 == 0 ? 1 : 2, i % 2 == 0 ? 9000 : 1000,
        i == 0 ? std::vector<TaskId>{} : std::vector<TaskId>{i});
  const Advice advice = advise(run, &kFree);
  EXPECT_EQ(advice.duration_ns, 50000u);
  ASSERT_GE(advice.changes.size(), 2u);
  EXPECT_EQ(advice.changes[0].what, "kernel slow at twice its speed");
  EXPECT_EQ(advice.changes[0].duration_ns, 27500u);
  EXPECT_EQ(with(advice, ChangeKind::Workers), 50000u);  // a chain needs one
  EXPECT_EQ(with(advice, ChangeKind::Split), 45500u);
  EXPECT_EQ(with(advice, ChangeKind::LargerTasks), 50000u);  // where tasks cost nothing
}

TEST(Advice, says_that_wide_work_needs_more_workers) {
  RecordedRun run = run_of(2);
  for (int i = 0; i < 16; ++i) add(run, 1, 1000);
  for (int i = 0; i < 16; ++i) add(run, 2, 1000);
  const Advice advice = advise(run, &kFree);
  EXPECT_EQ(advice.duration_ns, 16000u);
  ASSERT_FALSE(advice.changes.empty());
  EXPECT_EQ(advice.changes[0].what, "4 workers instead of 2");
  EXPECT_EQ(advice.changes[0].duration_ns, 8000u);
}

TEST(Advice, says_which_task_to_split) {
  RecordedRun run = run_of(2);
  add(run, 1, 8000, {}, EdgeCause::Data, 1);
  add(run, 1, 1000, {1}, EdgeCause::Data, 2);
  const Advice advice = advise(run, &kFree);
  EXPECT_EQ(with(advice, ChangeKind::Split), 5000u);
  const auto split =
      std::find_if(advice.changes.begin(), advice.changes.end(),
                   [](const Change& change) { return change.kind == ChangeKind::Split; });
  EXPECT_EQ(split->what, "task 1 (slow) at orch.cpp:7 in two halves");
}

// A buffer is written and read eight times: four writers and readers could overlap.
TEST(Advice, says_which_tasks_wait_only_for_memory) {
  RecordedRun run = run_of(4);
  for (TaskId i = 0; i < 8; ++i) {
    const TaskId before = 2 * i;
    add(run, 1, 1000, before == 0 ? std::vector<TaskId>{} : std::vector<TaskId>{before},
        EdgeCause::Storage, 1);
    add(run, 2, 1000, {before + 1}, EdgeCause::Data, 2);
  }
  const Advice advice = advise(run, &kFree);
  EXPECT_EQ(advice.duration_ns, 16000u);
  ASSERT_FALSE(advice.changes.empty());
  EXPECT_EQ(advice.changes[0].kind, ChangeKind::Buffer);
  EXPECT_THAT(advice.changes[0].what, HasSubstr("for each task at orch.cpp:7"));
  EXPECT_EQ(advice.changes[0].duration_ns, 4000u);
}

TEST(Advice, keeps_the_order_of_those_that_still_share_the_memory) {
  RecordedRun run = run_of(4);
  add(run, 1, 4000, {}, EdgeCause::Storage, 2);   // writes the buffer
  add(run, 2, 1000, {1}, EdgeCause::Storage, 1);  // so does this one, and gets another
  add(run, 1, 1000, {2}, EdgeCause::Storage, 2);  // and this one, after the first still
  EXPECT_EQ(with(advise(run, &kFree), ChangeKind::Buffer), 5000u);
}

// Two chains of eight, one submitted after the other.
TEST(Advice, says_when_the_window_is_too_small) {
  RecordedRun run = run_of(2);
  run.window = 4;
  for (TaskId i = 0; i < 16; ++i)
    add(run, 1, 1000, i % 8 == 0 ? std::vector<TaskId>{} : std::vector<TaskId>{i});
  const Advice advice = advise(run, &kFree);
  ASSERT_FALSE(advice.changes.empty());
  EXPECT_GT(advice.duration_ns, 11000u);
  EXPECT_EQ(with(advice, ChangeKind::Window), 8000u);
  run.window = 16;
  EXPECT_EQ(advise(run, &kFree).duration_ns, 8000u);
}

TEST(Advice, says_when_tasks_are_too_small) {
  RecordedRun run = run_of(1);
  for (int i = 0; i < 64; ++i) {
    add(run, 1, 10);
    run.tasks.back().submit_ns = 500;
  }
  SchedulingCosts costs{};
  costs.task_ns = 500;
  const Advice advice = advise(run, &costs);
  EXPECT_EQ(advice.duration_ns, 64u * 1010);
  EXPECT_EQ(with(advice, ChangeKind::LargerTasks), 64u * 510);
  EXPECT_EQ(with(advice, ChangeKind::Kernel), 64u * 1005);
}

TEST(Advice, of_an_empty_run_is_empty) { EXPECT_TRUE(advise(run_of(2), &kFree).changes.empty()); }

}  // namespace pto::advice_test
