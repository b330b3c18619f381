// SPDX-License-Identifier: Apache-2.0
#include "pto/base/blocked_signals.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace pto::blocked_signals_test {

bool blocks(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(BlockedSignals, a_thread_that_is_started_handles_none) {
  bool blocked[3] = {};
  std::thread thread;
  {
    const BlockedSignals none;
    thread = std::thread([&] {
      blocked[0] = blocks(SIGINT), blocked[1] = blocks(SIGTERM), blocked[2] = blocks(SIGALRM);
    });
  }
  thread.join();
  EXPECT_TRUE(blocked[0] && blocked[1] && blocked[2]);
}

TEST(BlockedSignals, the_calling_thread_gets_its_mask_back) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  try {
    const BlockedSignals none;
    EXPECT_TRUE(blocks(SIGINT));
    throw std::runtime_error("no thread");
  } catch (const std::runtime_error&) {
    EXPECT_FALSE(blocks(SIGINT));
    EXPECT_TRUE(blocks(SIGUSR2));
  }
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

}  // namespace pto::blocked_signals_test
