// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/hosted_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace pto::hosted_loop_test {

constexpr int kBlocks = 1000, kThreads = 4;

// How often each block ran.
struct Runs {
  std::vector<std::atomic<int>> of = std::vector<std::atomic<int>>(kBlocks);

  static int32_t add(void* runs, int32_t block) {
    static_cast<Runs*>(runs)->of[static_cast<size_t>(block)].fetch_add(1);
    return 0;
  }
  bool each_once() const {
    return std::all_of(of.begin(), of.end(), [](const auto& times) { return times == 1; });
  }
};

void on_threads(const std::function<void()>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

TEST(HostedLoop, its_threads_run_each_block_once) {
  Runs runs;
  HostedLoop loop(kBlocks, Runs::add, &runs);
  std::atomic<int> taken{0};
  on_threads([&] { taken += loop.work(); });
  EXPECT_TRUE(runs.each_once());
  EXPECT_EQ(taken, kBlocks);
  EXPECT_EQ(loop.result(), 0);
}

TEST(HostedLoop, no_block_runs_after_one_that_fails) {
  int runs = 0;
  const auto fail_third = [](void* count, int32_t block) -> int32_t {
    ++*static_cast<int*>(count);
    return block == 2 ? 42 : 0;
  };
  HostedLoop loop(kBlocks, fail_third, &runs);
  EXPECT_EQ(loop.work(), kBlocks);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(loop.result(), 42);
}

TEST(SharedLoop, the_caller_waits_for_blocks_of_helpers) {
  struct Slow {
    std::atomic<int> begun{0}, ended{0};
    static int32_t run(void* self, int32_t) {
      auto& slow = *static_cast<Slow*>(self);
      // The caller's block ends once a helper has one, which takes longer.
      if (slow.begun.fetch_add(1) > 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      else
        while (slow.begun.load() < 2) std::this_thread::yield();
      slow.ended.fetch_add(1);
      return 0;
    }
  } slow;
  const auto loop = std::make_shared<SharedLoop>(2, Slow::run, &slow);
  std::thread helper([loop] { loop->help(); });
  EXPECT_EQ(loop->run(), 0);
  EXPECT_EQ(slow.ended, 2);
  helper.join();
}

TEST(SharedLoop, each_block_runs_once_with_helpers_that_come_at_any_time) {
  for (int round = 0; round < 50; ++round) {
    Runs runs;
    const auto loop = std::make_shared<SharedLoop>(kBlocks, Runs::add, &runs);
    std::thread caller([&] { EXPECT_EQ(loop->run(), 0); });
    on_threads([&] { loop->help(); });
    caller.join();
    ASSERT_TRUE(runs.each_once());
  }
}

TEST(SharedLoop, a_helper_that_comes_late_touches_nothing_of_the_caller) {
  auto runs = std::make_unique<Runs>();
  const auto loop = std::make_shared<SharedLoop>(kBlocks, Runs::add, runs.get());
  EXPECT_EQ(loop->run(), 0) << "it waits for no helper";
  EXPECT_TRUE(runs->each_once());
  runs.reset();
  on_threads([&] { loop->help(); });  // a sanitizer sees a use of `runs`
}

TEST(SharedLoop, a_failure_of_a_helper_is_the_result) {
  const auto fail = [](void* caller, int32_t) -> int32_t {
    return std::this_thread::get_id() == *static_cast<std::thread::id*>(caller) ? 0 : 7;
  };
  std::thread::id caller = std::this_thread::get_id();
  const auto loop = std::make_shared<SharedLoop>(1, fail, &caller);
  std::thread([loop] { loop->help(); }).join();
  EXPECT_EQ(loop->run(), 7);
}

}  // namespace pto::hosted_loop_test
