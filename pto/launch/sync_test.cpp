// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/sync.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "pto/launch/pool.hpp"

namespace pto::sync_test {

using testing::HasSubstr;

// Runs `body` on every core of a launch; returns the text of its error, or "".
std::string launch(int32_t blocks, int32_t lanes, bool has_cube, std::function<void()> body) {
  const auto call = [](void* context) -> int32_t {
    (*static_cast<std::function<void()>*>(context))();
    return 0;
  };
  return pto_launch_cores(blocks, lanes, has_cube, call, &body) == 0 ? "" : pto_last_error();
}

std::string launch(int32_t blocks, std::function<void()> body) {
  return launch(blocks, 1, false, std::move(body));
}

int32_t me() { return pto_block_index(); }

// Runs each test with one thread and with several.
class Sync : public testing::TestWithParam<int> {
  const ScopedThreadLimit limit_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Threads, Sync, testing::Values(1, 2, 8));

void barrier(int line = 1) { pto_barrier(PTO_CORE_ANY, nullptr, 0, "k.cpp", line); }

TEST_P(Sync, a_barrier_orders_what_all_blocks_wrote_before_it) {
  for (const int32_t blocks : {1, 2, 3, 8, 64, 500}) {
    std::vector<int> written(static_cast<size_t>(blocks));
    std::atomic<int> wrong{0};
    EXPECT_EQ(launch(blocks,
                     [&] {
                       for (int round = 1; round <= 5; ++round) {
                         written[static_cast<size_t>(me())] = round;
                         barrier();
                         for (const int value : written) wrong += value != round;
                         barrier();
                       }
                     }),
              "");
    EXPECT_EQ(wrong.load(), 0) << blocks;
  }
}

TEST_P(Sync, blocks_keep_their_identity_memory_and_scratch_across_waits) {
  std::atomic<int> wrong{0};
  EXPECT_EQ(launch(9,
                   [&] {
                     const int32_t block = me();
                     auto* memory = static_cast<int*>(pto_block_memory(0, 4096));
                     const pto_args* args = t_block.args;
                     auto* scratch =
                         static_cast<int*>(args->services->scratch(args->services, 4096));
                     for (int round = 0; round < 4; ++round) {
                       *memory = *scratch = block * 100 + round;
                       barrier();
                       wrong += *memory != block * 100 + round || *scratch != *memory;
                       wrong += me() != block || pto_block_count() != 9;
                       wrong += pto_block_memory(0, 4096) != memory;
                     }
                   }),
            "");
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(pto_block_index(), 0);
}

TEST_P(Sync, a_launch_inside_a_block_that_waits_has_barriers_of_its_own) {
  std::atomic<int> sum{0};
  EXPECT_EQ(launch(4,
                   [&] {
                     barrier();
                     const std::string inner = launch(3, [&] {
                       barrier();
                       sum += 1;
                       barrier();
                     });
                     if (!inner.empty()) throw std::runtime_error(inner);
                     barrier();
                   }),
            "");
  EXPECT_EQ(sum.load(), 12);
}

TEST_P(Sync, cores_of_a_block_pass_data_by_flags) {
  struct Mail {
    int to_lane[2] = {}, to_cube[2] = {};
  };
  std::vector<Mail> mails(5);
  std::atomic<int> wrong{0};
  EXPECT_EQ(launch(5, 2, true,
                   [&] {
                     Mail& mail = mails[static_cast<size_t>(me())];
                     const int32_t lane = pto_lane_index();
                     for (int i = 1; i <= 20; ++i) {
                       if (pto_core() == PTO_CORE_CUBE) {
                         mail.to_lane[0] = mail.to_lane[1] = i;
                         pto_cross_set(PTO_SYNC_BLOCK, 3, "k.cpp", 1);
                         pto_cross_wait(PTO_SYNC_PAIR, 5, "k.cpp", 2);
                         pto_cross_wait(PTO_SYNC_PAIR, 5 + 16, "k.cpp", 3);
                         wrong += mail.to_cube[0] != 10 * i || mail.to_cube[1] != 10 * i + 1;
                       } else {
                         pto_cross_wait(PTO_SYNC_BLOCK, 3, "k.cpp", 4);
                         wrong += mail.to_lane[lane] != i;
                         mail.to_cube[lane] = 10 * i + lane;
                         pto_cross_set(PTO_SYNC_PAIR, 5, "k.cpp", 5);
                       }
                     }
                   }),
            "");
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(Sync, a_ring_keeps_order_and_capacity) {
  static const int kKey = 0;
  std::atomic<int> wrong{0};
  EXPECT_EQ(launch(3, 2, true,
                   [&] {
                     pto_ring ring{&kKey, "TPOP", pto_lane_index(), pto_lane_count(), 2, 64};
                     for (int i = 0; i < 50; ++i) {
                       if (pto_core() == PTO_CORE_CUBE) {
                         *static_cast<int*>(pto_ring_push(&ring, "k.cpp", 1)->data) = i;
                         pto_ring_done(&ring);
                       } else {
                         pto_slot* slot = pto_ring_pop(&ring, "k.cpp", 2);
                         wrong += *static_cast<int*>(slot->data) != i || slot->turn != i;
                         pto_ring_release(&ring);
                       }
                     }
                   }),
            "");
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(Sync, memory_that_a_later_block_writes_ends_a_wait) {
  std::atomic<int32_t> signal{0};
  EXPECT_EQ(launch(6,
                   [&] {
                     const auto holds = [](const void* at) -> int32_t {
                       return static_cast<const std::atomic<int32_t>*>(at)->load() >= 5;
                     };
                     if (me() == 0) return pto_wait_memory(holds, &signal, "for 5", "k.cpp", 7);
                     signal.fetch_add(1);
                   }),
            "");
}

TEST_P(Sync, memory_that_another_launch_writes_ends_a_wait) {
  std::atomic<int32_t> ping{0}, pong{0};
  const auto await = [](std::atomic<int32_t>& signal, int32_t value) {
    struct Condition {
      std::atomic<int32_t>* signal;
      int32_t value;
    } condition{&signal, value};
    pto_wait_memory(
        [](const void* of) -> int32_t {
          const auto* condition = static_cast<const Condition*>(of);
          return condition->signal->load() >= condition->value;
        },
        &condition, "for the other rank", "k.cpp", 1);
  };
  std::thread other([&] {
    EXPECT_EQ(launch(2,
                     [&] {
                       for (int i = 1; me() == 0 && i <= 20; ++i) {
                         await(ping, i);
                         pong = i;
                       }
                     }),
              "");
  });
  EXPECT_EQ(launch(2,
                   [&] {
                     for (int i = 1; me() == 1 && i <= 20; ++i) {
                       ping = i;
                       await(pong, i);
                     }
                   }),
            "");
  other.join();
}

TEST_P(Sync, a_deadlock_names_who_waits_for_what_and_where) {
  const std::string error = launch(4, [&] {
    if (me() == 1) return;
    if (me() == 2) return pto_cross_wait(PTO_SYNC_BLOCK, 9, "mine.cpp", 33);
    barrier(12);
  });
  EXPECT_THAT(error, HasSubstr("deadlock: block 0 waits in SYNCALL, where 2 of 4 have arrived, at "
                               "k.cpp:12; block 2 waits for flag 9 (wait_flag_dev) at mine.cpp:33; "
                               "block 3 waits in SYNCALL, where 2 of 4 have arrived, at k.cpp:12; "
                               "1 of 4 have ended, the first is block 1"));
  EXPECT_EQ(launch(4, [] { barrier(); }), "") << "the next launch is sound";
}

TEST_P(Sync, a_wait_for_memory_that_nobody_writes_ends) {
  const std::string error = launch(2, [&] {
    pto_wait_memory([](const void*) -> int32_t { return 0; }, nullptr, "for a signal >= 3", "k.cpp",
                    8);
  });
  EXPECT_THAT(error, HasSubstr("block 0 waits for a signal >= 3 at k.cpp:8; block 1 waits"));
}

TEST_P(Sync, a_block_that_throws_unwinds_those_that_wait) {
  struct Counted {
    std::atomic<int>* count;
    explicit Counted(std::atomic<int>* to) : count(to) { ++*count; }
    ~Counted() { --*count; }
  };
  std::atomic<int> alive{0};
  const std::string error = launch(20, [&] {
    const Counted counted(&alive);
    if (me() == 13) throw std::runtime_error("thrown by 13");
    barrier();
  });
  EXPECT_EQ(error, "thrown by 13");
  EXPECT_EQ(alive.load(), 0) << "every destructor has run";
}

TEST_P(Sync, flags_of_a_block_are_checked_in_it) {
  EXPECT_EQ(launch(3,
                   [] {
                     for (int i = 0; i < 3; ++i) {
                       pto_set_flag(4, 1, 0, "k.cpp", 1);
                       pto_set_flag(4, 1, 1, "k.cpp", 2);
                       pto_wait_flag(4, 1, 1, "k.cpp", 3);
                       pto_wait_flag(4, 1, 0, "k.cpp", 4);
                     }
                   }),
            "");
  EXPECT_THAT(launch(1, [] { pto_wait_flag(4, 1, 2, "k.cpp", 5); }),
              HasSubstr("block 0 waits for flag (PIPE_MTE2, PIPE_V, EVENT_ID2) at k.cpp:5, which "
                        "it has not set"));
  EXPECT_THAT(launch(1, [] { pto_set_flag(1, 5, 0, "k.cpp", 6); }),
              HasSubstr("block 0 ended with flag (PIPE_V, PIPE_MTE3, EVENT_ID0) set once more than "
                        "awaited, the last time at k.cpp:6"));
  EXPECT_THAT(launch(1, [] { pto_set_flag(1, 5, -1, "k.cpp", 8); }),
              HasSubstr("block 0 names flag (PIPE_V, PIPE_MTE3, event -1) at k.cpp:8"));
  EXPECT_THAT(launch(1, [] { pto_wait_flag(16, 5, 32, "k.cpp", 9); }),
              HasSubstr("block 0 names flag (another pipe, PIPE_MTE3, event 32) at k.cpp:9"));
  pto_wait_flag(4, 1, 2, "k.cpp", 7);  // outside launches nothing is checked
}

TEST_P(Sync, what_is_left_at_the_end_of_a_launch_is_an_error) {
  EXPECT_THAT(launch(2,
                     [] {
                       if (me() == 1) pto_cross_set(PTO_SYNC_BLOCK, 4, "k.cpp", 9);
                     }),
              HasSubstr("flag 4 of block 1 was set once more than awaited, the last time at "
                        "k.cpp:9"));
  EXPECT_THAT(launch(2,
                     [] {
                       if (me() == 1) pto_cross_set(PTO_SYNC_ALL, 4, "k.cpp", 9);
                     }),
              HasSubstr("block 1 set flag 4 once more than the others of its group"));
  static const int kKey = 0;
  EXPECT_THAT(launch(1,
                     [] {
                       pto_ring ring{&kKey, "TPUSH", 0, 1, 2, 64};
                       pto_ring_push(&ring, "k.cpp", 1);
                       pto_ring_done(&ring);
                     }),
              HasSubstr("block 0 pushed 1 times into a pipe and popped 0 times"));
}

TEST_P(Sync, a_block_can_wait_inside_a_handler_of_exceptions) {
  std::atomic<int> wrong{0};
  EXPECT_EQ(launch(5,
                   [&] {
                     try {
                       throw me();
                     } catch (int) {
                       barrier();
                       try {
                         throw;
                       } catch (int block) {
                         wrong += block != me();
                       }
                     }
                   }),
            "");
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(Sync, a_hosts_loop_runs_blocks_that_wait) {
  const auto host = [](void*, int32_t blocks, BlockFunction run, void* context) -> int32_t {
    std::atomic<int32_t> result{0};
    std::vector<std::thread> threads;
    for (int32_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int32_t block = t; block < blocks; block += 3) {
          if (const int32_t code = run(context, block); code != 0) result = code;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return result;
  };
  const ScopedExecutor executor(host, nullptr);
  std::vector<int> written(20);
  std::atomic<int> sum{0};
  EXPECT_EQ(launch(20,
                   [&] {
                     written[static_cast<size_t>(me())] = 1;
                     barrier();
                     for (const int value : written) sum += value;
                   }),
            "");
  EXPECT_EQ(sum.load(), 400);
  EXPECT_THAT(launch(20, [&] { pto_cross_wait(PTO_SYNC_ALL, 1, "k.cpp", 3); }),
              HasSubstr("; 4 more wait"));
}

TEST(SyncOutside, threads_wait_for_each_other) {
  static const int kKey = 0;
  int sum = 0;
  std::thread consumer([&] {
    pto_set_core(PTO_CORE_VECTOR, 0, 0, 1);
    pto_ring ring{&kKey, "TPOP", 0, 1, 2, 64};
    for (int i = 0; i < 100; ++i) {
      sum += *static_cast<int*>(pto_ring_pop(&ring, "k.cpp", 1)->data);
      pto_ring_release(&ring);
    }
  });
  pto_ring ring{&kKey, "TPUSH", 0, 1, 2, 64};
  for (int i = 0; i < 100; ++i) {
    *static_cast<int*>(pto_ring_push(&ring, "k.cpp", 2)->data) = i;
    pto_ring_done(&ring);
  }
  consumer.join();
  EXPECT_EQ(sum, 4950);
  pto_ring_reset(&kKey);
}

}  // namespace pto::sync_test
