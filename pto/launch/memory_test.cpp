// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "pto/abi/host.h"

namespace pto::memory_test {

constexpr size_t kMega = size_t{1} << 20;

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    release_cached();
    others = memory_stats().held_bytes;
  }

  int64_t others = 0;  // what earlier tests left: slabs of small blocks
};

TEST_F(Memory, blocks_are_aligned_and_hold_what_was_asked_for) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{257}, size_t{4096}, kMega - 65,
        kMega - 64, kMega - 1, kMega, kMega + 1, 3 * kMega + 7, 32 * kMega}) {
    void* block = pto_malloc(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    std::memset(block, 0x5a, bytes);
    pto_free(block);
  }
}

TEST_F(Memory, freeing_null_does_nothing_and_the_impossible_is_null) {
  pto_free(nullptr);
  EXPECT_EQ(pto_malloc(SIZE_MAX), nullptr);
  EXPECT_EQ(pto_malloc(SIZE_MAX - 63), nullptr);
  EXPECT_EQ(pto_malloc(size_t{1} << 47), nullptr);
}

TEST_F(Memory, a_large_block_is_used_again_for_the_same_size) {
  void* first = pto_malloc(8 * kMega);
  pto_free(first);
  const int64_t maps = memory_stats().maps;
  for (int round = 0; round < 10; ++round) {
    void* again = pto_malloc(8 * kMega);
    EXPECT_EQ(again, first);
    pto_free(again);
  }
  EXPECT_EQ(memory_stats().maps, maps);
}

TEST_F(Memory, a_small_block_is_used_again_for_the_same_size) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1000}, kMega - 100}) {
    void* first = pto_malloc(bytes);
    pto_free(first);
    void* again = pto_malloc(bytes);
    EXPECT_EQ(again, first) << bytes;
    pto_free(again);
  }
}

TEST_F(Memory, a_mapping_is_at_most_an_eighth_larger_than_its_block) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = static_cast<int64_t>(kMega + (random() >> (20 + random() % 20)));
    EXPECT_GE(mapped_bytes(bytes), bytes + 64);
    EXPECT_LE(static_cast<double>(mapped_bytes(bytes)),
              static_cast<double>(bytes + 64) * 1.125 + 1);
  }
}

TEST_F(Memory, live_bytes_count_what_was_asked_for) {
  const int64_t before = memory_stats().live_bytes;
  reset_peak_live_bytes();
  void* small = pto_malloc(100);
  void* large = pto_malloc(2 * kMega);
  EXPECT_EQ(memory_stats().live_bytes - before, 100 + static_cast<int64_t>(2 * kMega));
  pto_free(large);
  pto_free(small);
  EXPECT_EQ(memory_stats().live_bytes, before);
  EXPECT_EQ(memory_stats().peak_live_bytes - before, 100 + static_cast<int64_t>(2 * kMega));
}

TEST_F(Memory, free_blocks_never_hold_more_than_the_limit) {
  const auto limit = static_cast<int64_t>(256 * kMega);
  for (int i = 1; i < 60; ++i) {
    void* block = pto_malloc(static_cast<size_t>(i) * 2 * kMega + static_cast<size_t>(i));
    pto_free(block);
    EXPECT_LE(memory_stats().held_bytes, limit) << i;
  }
}

TEST_F(Memory, a_request_that_fails_leaves_what_is_kept_and_its_limit) {
  pto_free(pto_malloc(16 * kMega));
  const MemoryStats before = memory_stats();
  EXPECT_EQ(pto_malloc(size_t{1} << 46), nullptr);  // more than any machine has
  EXPECT_EQ(memory_stats().free_bytes, before.free_bytes);
  EXPECT_EQ(memory_stats().maps, before.maps);
  for (int i = 1; i < 60; ++i) {
    pto_free(pto_malloc(static_cast<size_t>(i) * 2 * kMega));
    EXPECT_LE(memory_stats().held_bytes, static_cast<int64_t>(256 * kMega)) << i;
  }
}

TEST_F(Memory, a_new_block_beyond_the_limit_replaces_free_ones_before_it_is_mapped) {
  pto_free(pto_malloc(200 * kMega));
  void* larger = pto_malloc(300 * kMega);
  EXPECT_EQ(memory_stats().free_bytes, 0);
  EXPECT_EQ(memory_stats().held_bytes - others, mapped_bytes(300 * kMega));
  pto_free(larger);
}

TEST_F(Memory, what_was_live_at_the_peak_is_kept_and_later_forgotten) {
  void* a = pto_malloc(300 * kMega);
  void* b = pto_malloc(300 * kMega);
  pto_free(a);
  pto_free(b);
  EXPECT_EQ(memory_stats().free_bytes, 2 * mapped_bytes(300 * kMega));
  for (int i = 0; i < 520; ++i) pto_free(pto_malloc(2 * kMega));
  EXPECT_LE(memory_stats().held_bytes, static_cast<int64_t>(256 * kMega));
}

TEST_F(Memory, release_gives_everything_free_back) {
  void* live = pto_malloc(4 * kMega);
  pto_free(pto_malloc(16 * kMega));
  EXPECT_GT(memory_stats().free_bytes, 0);
  release_cached();
  EXPECT_EQ(memory_stats().free_bytes, 0);
  EXPECT_EQ(memory_stats().held_bytes - others, mapped_bytes(4 * kMega));
  pto_free(live);
}

// Random traffic of several threads that free each other's blocks: no block is handed out twice.
TEST_F(Memory, live_blocks_never_overlap_under_traffic_from_several_threads) {
  std::atomic<void*> exchange[8] = {};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = 64 + (random() >> (10 + random() % 20));
        auto* block = static_cast<uint64_t*>(pto_malloc(bytes));
        const size_t last = bytes / 8 - 1;
        block[0] = block[last] = bytes;
        auto* other = static_cast<uint64_t*>(exchange[random() % 8].exchange(block));
        if (other == nullptr) continue;
        if (other[0] != other[other[0] / 8 - 1]) wrong.fetch_add(1);
        pto_free(other);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& block : exchange) pto_free(block.load());
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(Memory, a_forked_child_can_allocate) {
  std::atomic<bool> stop{false};
  std::thread busy([&stop] {
    while (!stop.load()) pto_free(pto_malloc(2 * kMega));
  });
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      void* large = pto_malloc(2 * kMega);
      void* small = pto_malloc(100);
      _exit(large != nullptr && small != nullptr ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop.store(true);
  busy.join();
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_F(Memory, a_second_free_is_reported_and_does_no_harm) {
  void* block = pto_malloc(2 * kMega);
  pto_free(block);
  testing::internal::CaptureStderr();
  pto_free(block);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr("is not a live block of pto_malloc"));
  EXPECT_THAT(text, testing::HasSubstr("fix: free each block once"));
  void* a = pto_malloc(2 * kMega);
  void* b = pto_malloc(2 * kMega);
  EXPECT_NE(a, b);
  pto_free(a);
  pto_free(b);
}
#else
TEST_F(Memory, the_address_sanitizer_sees_the_end_of_a_block_and_its_release) {
  for (const size_t bytes : {size_t{100}, 2 * kMega + 4}) {
    auto* block = static_cast<volatile char*>(pto_malloc(bytes));
    block[bytes - 1] = 1;
    EXPECT_DEATH(block[bytes] = 1, "use-after-poison");
    pto_free(const_cast<char*>(block));
    EXPECT_DEATH(block[0] = 1, "use-after-poison");
  }
}
#endif

}  // namespace pto::memory_test
