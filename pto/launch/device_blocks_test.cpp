// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/device_blocks.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace pto::device_blocks_test {

const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(DeviceBlocks, every_pointer_into_a_block_knows_its_device_and_its_end) {
  DeviceBlocks blocks;
  EXPECT_EQ(blocks.place_of(at(1000)).device, -1);
  DeviceBlock one{1000, 400, 3}, two{1400, 1, 0};
  blocks.add(&one);
  blocks.add(&two);
  EXPECT_EQ(blocks.place_of(at(1000)).bytes, 400);
  EXPECT_EQ(blocks.place_of(at(1399)).device, 3);
  EXPECT_EQ(blocks.place_of(at(1399)).bytes, 1);
  EXPECT_EQ(blocks.place_of(at(1400)).device, 0);
  EXPECT_EQ(blocks.place_of(at(999)).device, -1);
  EXPECT_EQ(blocks.place_of(nullptr).bytes, -1);
  blocks.remove(&one);
  EXPECT_EQ(blocks.place_of(at(1000)).device, -1);
  EXPECT_EQ(blocks.place_of(at(1400)).bytes, 1);
}

// Law: after any additions and removals of blocks of all sizes that do not overlap, each look-up
// finds the block that holds the address, or none.
TEST(DeviceBlocks, a_pointer_finds_its_block_whatever_was_added_and_removed) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    DeviceBlocks blocks;
    std::deque<DeviceBlock> made;
    std::map<uintptr_t, DeviceBlock*> live;
    const auto holder = [&](uintptr_t address) -> DeviceBlock* {
      auto next = live.upper_bound(address);
      if (next == live.begin()) return nullptr;
      DeviceBlock* block = std::prev(next)->second;
      return address < block->base + block->bytes ? block : nullptr;
    };
    for (int step = 0; step < 400; ++step) {
      const uintptr_t base = random() % (uintptr_t{1} << (10 + random() % 30));
      const size_t bytes = 1 + random() % (size_t{1} << (random() % 34));
      const auto next = live.lower_bound(base);
      if (!live.empty() && random() % 4 == 0) {
        auto one = std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
        blocks.remove(one->second);
        live.erase(one);
      } else if (holder(base) == nullptr && (next == live.end() || next->first >= base + bytes)) {
        made.push_back({base, bytes, step});
        live[base] = &made.back();
        blocks.add(&made.back());
      }
      for (int look = 0; look < 4 && !live.empty(); ++look) {
        const auto& [start, block] =
            *std::next(live.begin(), static_cast<int64_t>(random() % live.size()));
        for (const uintptr_t address : {start - 1, start, start + random() % block->bytes,
                                        start + block->bytes - 1, start + block->bytes}) {
          const DeviceBlock* want = holder(address);
          const DevicePlace place = blocks.place_of(at(address));
          ASSERT_EQ(place.device, want ? want->device : -1) << "seed " << seed << ", " << address;
          ASSERT_EQ(place.bytes,
                    want ? static_cast<int64_t>(want->base + want->bytes - address) : -1);
        }
      }
    }
  }
}

TEST(DeviceBlocks, threads_add_and_remove_while_others_ask) {
  DeviceBlocks blocks;
  DeviceBlock fixed{uintptr_t{1} << 20, 1000, 1};
  blocks.add(&fixed);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uintptr_t thread = 1; thread <= 3; ++thread) {
    threads.emplace_back([&blocks, &wrong, thread] {
      for (uintptr_t round = 0; round < 2000; ++round) {
        DeviceBlock mine{(thread << 32) + (round << 7), 100 + round, 2};
        blocks.add(&mine);
        if (blocks.place_of(at(mine.base + 99)).device != 2) wrong.fetch_add(1);
        if (blocks.place_of(at((uintptr_t{1} << 20) + 10)).bytes != 990) wrong.fetch_add(1);
        blocks.remove(&mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace pto::device_blocks_test
