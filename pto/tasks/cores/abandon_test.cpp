// SPDX-License-Identifier: Apache-2.0
// Tests runs whose kernels or orchestration do not return, and the runs after them.
#include "pto/tasks/cores/abandon.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace pto::abandon_test {

using testing::HasSubstr;

constexpr size_t kFlags = 16;
std::array<std::atomic<bool>, kFlags> g_may_return;
std::atomic<int> g_begun, g_expected;

int32_t hang(const pto_args* args) {  // until its flag is set, which no run does
  g_begun.fetch_add(1);
  while (!g_may_return[args->scalars[0]].load()) std::this_thread::yield();
  return 0;
}
int32_t meet(const pto_args*) {  // returns when as many threads as expected are here; else fails
  const auto end = RunWatch::Clock::now() + std::chrono::seconds(20);
  g_begun.fetch_add(1);
  while (g_begun.load() < g_expected.load() && RunWatch::Clock::now() < end)
    std::this_thread::yield();
  return g_begun.load() < g_expected.load();
}

// Scalars: the number of submissions of kernel "hang", then the address of its flag.
int32_t submit_hanging(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  for (int64_t i = 0; i < o.integer(0); ++i)
    o.submit("hang", {o.scalar(o.integer(1))}, {}, "hang.cpp", 7);
  return 0;
}
int32_t submit_meeting(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  for (int64_t i = 0; i < o.integer(0); ++i) o.submit("meet", {});
  return 0;
}
int32_t hang_itself(const pto_runtime_api*, const pto_args* args) {
  while (!g_may_return[args->scalars[1]].load()) std::this_thread::yield();
  return 0;
}
int32_t submit_for_ever(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  for (;;) o.submit(nullptr, {});
}

struct Kept {
  OrchestrationProgram program;
  std::vector<uint64_t> scalars;
};

std::shared_ptr<Kept> kept_for(int32_t (*orchestrate)(const pto_runtime_api*, const pto_args*),
                               uint64_t count, uint64_t flag = 0) {
  return std::make_shared<Kept>(
      Kept{{orchestrate, {{"hang", {hang, "hang"}}, {"meet", {meet, "meet"}}}}, {count, flag}});
}

RunReport run(const std::shared_ptr<Kept>& kept, const RunOptions& options,
              const WaitingCaller& caller = {}) {
  return run_contained(kept->program, {}, kept->scalars, options, kept, caller);
}

// Interrupts the run once `count` kernels have begun, whatever the clock says.
std::string error_when_begun(const std::shared_ptr<Kept>& kept, int count, int workers) {
  g_begun = 0;
  try {
    run(kept, {.workers = workers, .deadline_s = 1000}, {[=] { return g_begun >= count; }, {}});
  } catch (const AbandonedRun& error) {
    return error.what();
  }
  return "";
}

class Abandon : public testing::Test {
 protected:
  void SetUp() override {
    for (auto& flag : g_may_return) flag = false;
  }
  void TearDown() override { let_all_return(); }

  static void let_all_return() {
    for (auto& flag : g_may_return) flag = true;
    while (abandoned_runs() > 0) std::this_thread::yield();
  }
  // Checks that launches and runs use all threads.
  static void expect_all_cores() {
    g_expected = num_threads();
    g_begun = 0;
    run_orchestration(kept_for(submit_meeting, 0)->program, {},
                      std::array<uint64_t, 2>{uint64_t(num_threads()), 0}, {});
    EXPECT_EQ(g_begun, num_threads());
    g_begun = 0;
    const auto block = [](void*, int32_t) { return meet(nullptr); };
    EXPECT_EQ(parallel_for(num_threads(), block, nullptr), 0);
    g_begun = 0;
    EXPECT_EQ(run(kept_for(submit_meeting, uint64_t(num_threads())), {.deadline_s = 1000}).tasks,
              num_threads());
  }
};

TEST_F(Abandon, a_kernel_that_never_returns_is_named) {
  for (const int workers : {1, num_threads()}) {
    const auto kept = kept_for(submit_hanging, 1);
    const std::string text = error_when_begun(kept, 1, workers);
    EXPECT_THAT(text, HasSubstr("kernel hang (task 1, submitted at hang.cpp:7, on worker "));
    EXPECT_THAT(text, HasSubstr("has not returned"));
    EXPECT_THAT(text, HasSubstr("may still write to the run's arrays"));
    EXPECT_EQ(kept.use_count(), 2);  // kept for ever
    expect_all_cores();
  }
  EXPECT_EQ(abandoned_runs(), 2);
  let_all_return();
  expect_all_cores();
}

TEST_F(Abandon, all_workers_may_hang) {
  const int threads = num_threads();
  const std::string text = error_when_begun(kept_for(submit_hanging, threads), threads, 0);
  for (int i = 0; i < threads; ++i)
    EXPECT_THAT(text, HasSubstr("on worker " + std::to_string(i) + ")"));
  expect_all_cores();
}

TEST_F(Abandon, the_deadline_ends_the_wait) {
  try {
    run(kept_for(hang_itself, 0), {.deadline_s = 0.01});
    FAIL() << "it cannot end";
  } catch (const AbandonedRun& error) {
    EXPECT_THAT(error.what(), HasSubstr("the deadline of 0.01 s has passed, and "));
    EXPECT_EQ(error.kind(), ErrorKind::Runtime);
  }
}

TEST_F(Abandon, an_orchestration_that_never_returns_is_named) {
  const std::string text = error_when_begun(kept_for(hang_itself, 0), 0, 0);
  EXPECT_THAT(text, HasSubstr("the orchestration has not returned"));
  expect_all_cores();
}

TEST_F(Abandon, an_orchestration_that_goes_on_submitting_is_ended) {
  const auto kept = kept_for(submit_for_ever, 0);
  try {
    run(kept, {.deadline_s = 0.01});
    FAIL() << "it cannot end";
  } catch (const AbandonedRun&) {
    FAIL() << "it can be ended";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("deadline had passed when a task was submitted"));
  }
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(Abandon, a_run_that_ends_in_time_is_as_without_a_deadline) {
  g_may_return[0] = true;
  const auto kept = kept_for(submit_hanging, 1000);
  EXPECT_EQ(run(kept, {.deadline_s = 1e300}).tasks, 1000);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(abandoned_runs(), 0);
}

TEST_F(Abandon, another_run_is_waited_for_where_eight_are_abandoned) {
  for (int i = 0; i < kAbandonedRunsMax; ++i)
    EXPECT_NE(error_when_begun(kept_for(submit_hanging, 1, uint64_t(i)), 1, 1), "");
  EXPECT_EQ(abandoned_runs(), kAbandonedRunsMax);
  std::vector<std::string> told;
  g_begun = 0;
  const WaitingCaller caller{[] { return g_begun > 0; },
                             [&](const std::string& text) {
                               told.push_back(text);
                               g_may_return[2] = true;
                             }};
  const auto ninth = kept_for(submit_hanging, 1, kAbandonedRunsMax);
  EXPECT_THROW(run(ninth, {.workers = 1, .deadline_s = 1000}, caller), AbandonedRun);
  ASSERT_EQ(told.size(), 1);
  EXPECT_THAT(told[0], HasSubstr("is waited for: 8 abandoned runs"));
  EXPECT_EQ(abandoned_runs(), kAbandonedRunsMax);
}

}  // namespace pto::abandon_test
