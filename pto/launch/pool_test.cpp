// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "pto/base/machine.hpp"

#if defined(__SANITIZE_THREAD__)
#define PTO_TEST_TSAN 1
#else
#define PTO_TEST_TSAN 0
#endif

namespace pto::pool_test {

// Counts how often each block ran.
struct Count {
  explicit Count(int32_t blocks) : runs(static_cast<size_t>(blocks)) {}
  std::vector<std::atomic<int>> runs;

  static int32_t add(void* self, int32_t block) {
    static_cast<Count*>(self)->runs[static_cast<size_t>(block)].fetch_add(1);
    return 0;
  }
  bool each_once() const {
    for (const auto& run : runs) {
      if (run.load() != 1) return false;
    }
    return true;
  }
};

bool runs_each_block_once(int32_t blocks) {
  Count count(blocks);
  return parallel_for(blocks, Count::add, &count) == 0 && count.each_once();
}

TEST(Pool, every_block_runs_once_for_any_number_of_blocks) {
  for (const int32_t blocks : {0, 1, 2, 3, 7, 64, 1000}) {
    EXPECT_TRUE(runs_each_block_once(blocks)) << blocks;
  }
}

TEST(Pool, many_launches_in_a_row_lose_and_repeat_nothing) {
  for (const int threads : {1, 2, 5}) {
    Pool pool(threads, 50);
    for (int round = 0; round < 2000; ++round) {
      Count count(1 + round % 9);
      bool taken = false;
      ASSERT_EQ(pool.run(1 + round % 9, threads, Count::add, &count, &taken), 0);
      ASSERT_TRUE(taken && count.each_once()) << threads << " threads, round " << round;
    }
    EXPECT_LE(pool.workers(), threads - 1);
  }
}

TEST(Pool, workers_that_parked_come_back) {
  for (const int spin_us : {0, 20}) {
    Pool pool(3, spin_us);
    for (int round = 0; round < 20; ++round) {
      Count count(6);
      bool taken = false;
      pool.run(6, 3, Count::add, &count, &taken);
      ASSERT_TRUE(taken && count.each_once());
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }
}

// Each block waits for the other: the test passes only if two threads run at once.
struct Meeting {
  std::atomic<int> here{0};
  static int32_t meet(void* self, int32_t) {
    auto* meeting = static_cast<Meeting*>(self);
    meeting->here.fetch_add(1);
    while (meeting->here.load() < 2) std::this_thread::yield();
    return 0;
  }
};

TEST(Pool, blocks_run_at_the_same_time) {
  Pool pool(2, 100);
  for (int round = 0; round < 3; ++round) {
    Meeting meeting;
    bool taken = false;
    EXPECT_EQ(pool.run(2, 2, Meeting::meet, &meeting, &taken), 0);
  }
}

TEST(Pool, a_small_job_wakes_a_worker_that_may_join_it) {
  Pool pool(4, 0);
  Count count(64);
  bool taken = false;
  pool.run(64, 4, Count::add, &count, &taken);
  for (int round = 0; round < 8; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // all park, in any order
    Meeting meeting;
    EXPECT_EQ(pool.run(2, 2, Meeting::meet, &meeting, &taken), 0);
  }
}

TEST(Pool, a_slow_worker_is_waited_for) {
  struct Slow {
    Meeting meeting;
    std::atomic<int> done{0};
    std::thread::id caller = std::this_thread::get_id();
    static int32_t run(void* self, int32_t block) {
      auto* slow = static_cast<Slow*>(self);
      Meeting::meet(&slow->meeting, block);
      if (std::this_thread::get_id() != slow->caller) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      slow->done.fetch_add(1);
      return 0;
    }
  };
  Pool pool(2, 100);
  for (int round = 0; round < 5; ++round) {
    Slow slow;
    bool taken = false;
    pool.run(2, 2, Slow::run, &slow, &taken);
    EXPECT_EQ(slow.done.load(), 2);
  }
}

TEST(Pool, a_launch_inside_a_block_runs_inline) {
  EXPECT_FALSE(inside_block());
  std::atomic<int> inner{0};
  const auto outer = [](void* sum, int32_t) -> int32_t {
    if (!inside_block()) return 1;
    const std::thread::id here = std::this_thread::get_id();
    struct Inner {
      std::atomic<int>* sum;
      std::thread::id thread;
    } context{static_cast<std::atomic<int>*>(sum), here};
    return parallel_for(
        5,
        [](void* self, int32_t block) -> int32_t {
          auto* inner = static_cast<Inner*>(self);
          inner->sum->fetch_add(block);
          return std::this_thread::get_id() == inner->thread ? 0 : 2;
        },
        &context);
  };
  EXPECT_EQ(parallel_for(8, outer, &inner), 0);
  EXPECT_EQ(inner.load(), 8 * 10);
}

TEST(Pool, several_callers_at_once_all_get_their_result) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&wrong] {
      for (int round = 0; round < 300; ++round) {
        if (!runs_each_block_once(1 + round % 17)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Pool, the_first_error_is_returned_and_stops_the_rest) {
  std::atomic<int> ran{0};
  const auto function = [](void* ran, int32_t block) -> int32_t {
    static_cast<std::atomic<int>*>(ran)->fetch_add(1);
    return block == 3 ? 42 : 0;
  };
  EXPECT_EQ(parallel_for(100000, function, &ran), 42);
  EXPECT_LT(ran.load(), 100000);
  EXPECT_TRUE(runs_each_block_once(10));
}

TEST(Pool, what_a_block_throws_becomes_a_result) {
  const auto function = [](void*, int32_t block) -> int32_t {
    if (block % 2 == 1) throw std::runtime_error("no");
    return 0;
  };
  EXPECT_EQ(parallel_for(50, function, nullptr), kBlockThrew);
  EXPECT_FALSE(inside_block());
}

TEST(Pool, threads_are_at_least_one_and_at_most_the_cores) {
  set_num_threads(1 << 20);
  EXPECT_EQ(num_threads(), machine().cores);
  set_num_threads(0);
  EXPECT_EQ(num_threads(), 1);
  EXPECT_TRUE(runs_each_block_once(9));
  set_num_threads(machine().cores);
}

TEST(Pool, a_thread_limit_holds_for_this_thread_while_it_lives) {
  set_num_threads(machine().cores);
  {
    const ScopedThreadLimit limit(1);
    EXPECT_EQ(num_threads(), 1);
    std::thread([] { EXPECT_EQ(num_threads(), machine().cores); }).join();
    EXPECT_TRUE(runs_each_block_once(9));
  }
  EXPECT_EQ(num_threads(), machine().cores);
}

int32_t backwards(void* calls, int32_t blocks, BlockFunction function, void* context) {
  ++*static_cast<int*>(calls);
  for (int32_t block = blocks - 1; block >= 0; --block) {
    if (const int32_t result = function(context, block); result != 0) return result;
  }
  return 0;
}

TEST(Pool, a_scoped_executor_takes_the_launches_of_its_thread) {
  int calls = 0;
  {
    const ScopedExecutor executor(backwards, &calls);
    EXPECT_TRUE(runs_each_block_once(9));
    EXPECT_EQ(calls, 1);
    const auto nested = [](void* context, int32_t) -> int32_t {
      return parallel_for(3, Count::add, context);
    };
    Count count(3);
    EXPECT_EQ(parallel_for(1, nested, &count), 0);
    EXPECT_EQ(parallel_for(
                  2, [](void*, int32_t) -> int32_t { return inside_block() ? 7 : 8; }, nullptr),
              7);
    EXPECT_EQ(calls, 2) << "a launch inside a block does not reach the executor";
  }
  EXPECT_TRUE(runs_each_block_once(9));
  EXPECT_EQ(calls, 2);
}

TEST(Pool, a_forked_child_makes_its_own_pool) {
  if (PTO_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer forbids threads after a fork";
  ASSERT_TRUE(runs_each_block_once(64));
  const pid_t child = fork();
  if (child == 0) _exit(runs_each_block_once(64) && runs_each_block_once(5) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(runs_each_block_once(64));
}

TEST(Pool, a_process_ends_while_workers_are_parked_or_spin) {
  if (PTO_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer forbids threads after a fork";
  for (const int rest_us : {0, 1000}) {
    const pid_t child = fork();
    if (child == 0) {
      runs_each_block_once(64);
      usleep(static_cast<useconds_t>(rest_us));
      std::quick_exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace pto::pool_test
