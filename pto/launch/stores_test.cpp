// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/stores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

namespace pto::stores_test {

constexpr int kBytes = 48, kBlocks = 4;

// Records the same stores byte by byte.
class Bytes {
 public:
  uintptr_t add(uintptr_t start, uintptr_t end, int32_t block, bool adds, int32_t* other) {
    for (uintptr_t i = start; i < end; ++i) {
      if (follows(i, block) || (adds && adds_[i])) continue;
      *other = block_[i];
      return i;
    }
    for (uintptr_t i = start; i < end; ++i) {
      block_[i] = follows(i, block) ? block : Stores::kSeveral;
      time_of_[i] = time_, adds_[i] = adds;
    }
    return end;
  }
  void note_wait(int32_t block) { waited_[block] = ++time_; }
  Bytes() { std::fill(block_, block_ + kBytes, -1); }

 private:
  bool follows(uintptr_t i, int32_t block) const {
    return block_[i] == -1 || block_[i] == block || waited_[block] > time_of_[i];
  }

  int32_t block_[kBytes];
  bool adds_[kBytes] = {};
  int time_of_[kBytes] = {}, waited_[kBlocks] = {}, time_ = 0;
};

TEST(Stores, they_tell_what_a_map_of_every_byte_tells) {
  std::mt19937 random(7);
  for (int run = 0; run < 400; ++run) {
    Stores stores(kBlocks);
    Bytes bytes;
    for (int step = 0; step < 60; ++step) {
      const auto block = static_cast<int32_t>(random() % kBlocks);
      if (random() % 3 == 0) {
        stores.note_wait(block);
        bytes.note_wait(block);
        continue;
      }
      const uintptr_t start = random() % (kBytes - 1);
      const uintptr_t end = start + 1 + random() % std::min<uintptr_t>(kBytes - start, 16);
      const bool adds = random() % 2 == 0;
      int32_t found = -1, expected = -1;
      const uintptr_t at =
          stores.add(start, std::min<uintptr_t>(end, kBytes), block, block, adds, &found);
      ASSERT_EQ(at, bytes.add(start, std::min<uintptr_t>(end, kBytes), block, adds, &expected));
      ASSERT_EQ(found, expected);
    }
  }
}

TEST(Stores, threads_store_at_once) {
  Stores stores(2);
  const auto store = [&](int32_t block) {
    for (uintptr_t i = 0; i < 2000; ++i) {
      int32_t other = -1;
      const uintptr_t start = 16 * i + 8 * static_cast<uintptr_t>(block);
      EXPECT_EQ(stores.add(start, start + 8, block, block, false, &other), start + 8);
    }
  };
  std::thread thread(store, 0);
  store(1);
  thread.join();
  int32_t other = -1;
  EXPECT_EQ(stores.add(31992, 32000, 0, 0, false, &other), 31992u);
  EXPECT_EQ(other, 1);
}

TEST(Stores, there_are_none_outside_launches) { EXPECT_EQ(stores_of_launch(), nullptr); }

}  // namespace pto::stores_test
