// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/write_order.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace pto {
namespace {

// Runs `work` on so many threads.
template <class Work>
void at_once(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& one : threads) one.join();
}

TEST(WriteOrder, those_that_write_the_same_memory_follow_each_other) {
  int64_t count = 0;  // plain: ThreadSanitizer finds two at once
  at_once(4, [&](int i) {
    const std::array ranges{AddressRange{uintptr_t(8 * i), uintptr_t(8 * i + 1)},
                            AddressRange{100, 200}};
    for (int turn = 0; turn < 500; ++turn) {
      const WriteOrder order(ranges);
      ++count;
    }
  });
  EXPECT_EQ(count, 2000);
}

TEST(WriteOrder, others_run_side_by_side) {
  std::atomic<int> inside{0};
  at_once(2, [&](int i) {
    const AddressRange own[] = {{uintptr_t(64 * i + 64), uintptr_t(64 * i + 128)}};
    const WriteOrder order(own);
    ++inside;
    while (inside < 2) std::this_thread::yield();  // for ever, if they followed each other
  });
  EXPECT_EQ(inside, 2);
}

TEST(WriteOrder, a_call_inside_of_another_one_of_its_thread_waits_for_nobody) {
  const AddressRange memory[] = {{64, 128}};
  const WriteOrder outer(memory);
  const WriteOrder inner(memory), nothing({});
}

}  // namespace
}  // namespace pto
