// SPDX-License-Identifier: Apache-2.0
#include "pto/device/npu/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/deep.hpp"

namespace pto::npu::stream_test {

class Calls final : public StreamKernel {
 public:
  explicit Calls(std::function<void()> function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  std::function<void()> function_;
};

void submit(Stream& to, Length length, std::function<void()> function) {
  to.submit(std::make_unique<Calls>(std::move(function)), length);
}

TEST(Stream, kernels_run_in_the_order_of_submission_and_behind_the_marks_they_wait_for) {
  constexpr int kUsed = 3;
  for (int seed = 0; seed < rounds_of(30, 3000); ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::mutex mutex;
    std::vector<int> ran;                       // kernels by number
    std::vector<std::pair<int, int>> in_order;  // (before, after)
    int last[kUsed] = {-1, -1, -1}, next = 0;   // submitted to each stream
    for (int step = 0; step < 40; ++step) {
      const auto from = random() % kUsed, to = random() % kUsed;
      Length length = random() % 2 == 0 ? Length::Short : Length::Long;
      if (random() % 4 == 0 && last[from] >= 0) {
        stream(0, static_cast<int>(to)).wait_for(stream(0, static_cast<int>(from)).record());
        in_order.emplace_back(last[from], next);
        length = Length::Long;
      }
      submit(stream(0, static_cast<int>(to)), length, [&, n = next] {
        const std::lock_guard lock(mutex);
        ran.push_back(n);
      });
      if (last[to] >= 0) in_order.emplace_back(last[to], next);
      last[to] = next++;
    }
    wait_for_device(0);
    ASSERT_EQ(ran.size(), static_cast<size_t>(next)) << seed;
    for (const auto& [before, after] : in_order)
      ASSERT_LT(std::find(ran.begin(), ran.end(), before), std::find(ran.begin(), ran.end(), after))
          << before << " before " << after << ", seed " << seed;
  }
}

TEST(Stream, its_thread_handles_no_signal) {
  bool blocked = false;
  submit(stream(1, 1), Length::Long, [&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGINT) == 1;
  });
  stream(1, 1).wait();
  EXPECT_TRUE(blocked);
}

TEST(Stream, an_error_comes_with_the_next_wait_and_later_kernels_run) {
  Stream& one = stream(1, 1);
  bool has_run = false;
  submit(one, Length::Long, [] { throw std::runtime_error("the kernel gave up"); });
  submit(one, Length::Long, [&] { has_run = true; });
  try {
    one.wait();
    ADD_FAILURE() << "the error was lost";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("npu:1, stream 1, failed: the kernel gave up"));
  }
  EXPECT_TRUE(has_run);
  one.wait();
}

}  // namespace pto::npu::stream_test
