// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/extents.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace pto::extents_test {

const char* at(size_t address) { return reinterpret_cast<const char*>(address); }

TEST(Extents, a_pointer_reaches_to_the_end_of_its_range) {
  Extents extents;
  extents.add(at(1000), 400);
  EXPECT_EQ(extents.bytes_from(at(1000)), 400);
  EXPECT_EQ(extents.bytes_from(at(1399)), 1);
  EXPECT_EQ(extents.bytes_from(at(1400)), -1);
  EXPECT_EQ(extents.bytes_from(at(999)), -1);
  EXPECT_EQ(extents.bytes_from(nullptr), -1);
}

TEST(Extents, empty_ranges_null_and_unknown_bases_are_ignored) {
  Extents extents;
  extents.add(at(1000), 0);
  extents.add(nullptr, 100);
  EXPECT_FALSE(extents.remove(at(1000)));
  EXPECT_EQ(extents.bytes_from(at(1000)), -1);
  EXPECT_EQ(extents.bytes_from(at(50)), -1);
}

TEST(Extents, a_base_added_twice_stays_until_it_is_removed_twice) {
  Extents extents;
  extents.add(at(1000), 100);
  extents.add(at(1000), 40);
  EXPECT_EQ(extents.bytes_from(at(1010)), 30);
  EXPECT_EQ(extents.bytes_from(at(1050)), 50);
  EXPECT_TRUE(extents.remove(at(1000)));
  EXPECT_EQ(extents.bytes_from(at(1010)), 90);
  EXPECT_TRUE(extents.remove(at(1000)));
  EXPECT_EQ(extents.bytes_from(at(1010)), -1);
}

struct Plain {
  size_t base, bytes;
};

// Lists all right answers: more than one where two smallest ranges hold the address.
std::set<int64_t> right_answers(const std::vector<Plain>& ranges, size_t address) {
  std::set<int64_t> answers;
  size_t smallest = SIZE_MAX;
  for (const Plain& range : ranges) {
    if (address < range.base || address >= range.base + range.bytes) continue;
    if (range.bytes > smallest) continue;
    if (range.bytes < smallest) answers.clear();
    smallest = range.bytes;
    answers.insert(static_cast<int64_t>(range.base + range.bytes - address));
  }
  if (answers.empty()) answers.insert(-1);
  return answers;
}

// Law: after any additions and removals, each look-up finds the smallest range that holds it.
TEST(Extents, the_smallest_range_counts_whatever_was_added_and_removed) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Extents extents;
    std::vector<Plain> plain;
    for (int step = 0; step < 60; ++step) {
      if (!plain.empty() && random() % 3 == 0) {
        const size_t base = plain[random() % plain.size()].base;
        const auto last = std::find_if(plain.rbegin(), plain.rend(),
                                       [&](const Plain& range) { return range.base == base; });
        plain.erase(std::next(last).base());
        EXPECT_TRUE(extents.remove(at(base)));
      } else {
        plain.push_back({100 + random() % 150, 1 + random() % (random() % 4 == 0 ? 150 : 20)});
        extents.add(at(plain.back().base), plain.back().bytes);
      }
      for (int look = 0; look < 40; ++look) {
        const size_t address = 90 + random() % 330;
        ASSERT_TRUE(right_answers(plain, address).count(extents.bytes_from(at(address))))
            << "seed " << seed << ", step " << step << ", address " << address;
      }
    }
  }
}

TEST(Extents, readers_see_either_side_of_a_change_made_by_another_thread) {
  Extents extents;
  extents.add(at(1000), 1000);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop.load()) {
        const int64_t bytes = extents.bytes_from(at(1500));
        if (bytes != 500 && bytes != 100) wrong.fetch_add(1);
      }
    });
  }
  for (int round = 0; round < 2000; ++round) {
    extents.add(at(1400), 200);
    extents.remove(at(1400));
  }
  stop.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Extents, a_forked_child_registers_ranges_and_forks_again) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer takes the parent's lock for held in the child";
#endif
  const auto in_child = [](const auto& body) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a child that hangs must not outlive the test
      _exit(body());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const auto registers = [] {
    process_extents().add(at(1000), 10);
    return static_cast<int>(process_extents().bytes_from(at(1003)));
  };
  EXPECT_EQ(in_child([&] { return registers() + in_child(registers); }), 14);
}

}  // namespace pto::extents_test
