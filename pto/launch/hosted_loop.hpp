// SPDX-License-Identifier: Apache-2.0
// Hosted loop: hands the blocks of one launch out, one by one, to the threads of a framework's
// pool. Equal ranges, as frameworks cut them, would wait for the slowest thread.
//
//     HostedLoop loop(blocks, function, context, threads);      // in a ParallelFor
//     pool.run_and_wait(threads, [&](int thread) { loop.work(thread); });
//     return loop.result();
//
//     const auto loop = std::make_shared<SharedLoop>(blocks, function, context);
//     for (int i = 1; i < threads; ++i) pool.schedule([loop] { loop->help(); });
//     return loop->run();                              // the caller takes part
//
// Invariant: run() never waits for a helper that holds no block, so a pool that is busy, or runs
// tasks in the caller, costs speed but cannot deadlock.
// Thread safety: any thread may call work() and help().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "pto/base/clock.hpp"
#include "pto/launch/block_ranges.hpp"
#include "pto/launch/executor.hpp"

namespace pto {

// For a pool that waits for its threads, of which `threads` have numbers that stay from loop to
// loop.
class HostedLoop {
 public:
  HostedLoop(int32_t blocks, BlockFunction function, void* context, int threads = 1)
      : function_(function), context_(context) {
    ranges_.reset(blocks, threads);
  }

  // Runs one block, or nothing after another has failed.
  void run_block(int32_t block) {
    if (result_.load(std::memory_order_relaxed) != 0) return;
    int32_t none = 0;
    const int32_t code = function_(context_, block);
    if (code != 0) result_.compare_exchange_strong(none, code);
  }

  // Takes blocks until none is left; returns how many it took.
  int32_t work(int thread = 0) {
    int32_t taken = 0;
    for (int32_t block = ranges_.take(thread); block >= 0; block = ranges_.take(thread)) {
      run_block(block);
      ++taken;
    }
    return taken;
  }

  int32_t blocks() const { return ranges_.blocks(); }
  int32_t result() const { return result_.load(); }

 private:
  const BlockFunction function_;
  void* const context_;
  BlockRanges ranges_;
  std::atomic<int32_t> result_{0};
};

// For a pool whose threads may begin after the loop has ended: they share it with the caller, and
// find no block left.
class SharedLoop {
 public:
  SharedLoop(int32_t blocks, BlockFunction function, void* context)
      : loop_(blocks, function, context) {}

  void help() {
    const int32_t taken = loop_.work();
    if (taken == 0 || done_.fetch_add(taken) + taken < loop_.blocks()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    all_done_.notify_one();
  }

  int32_t run() {
    help();
    for (int i = 0; i < kPauses && !is_done(); ++i) pause_core();
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return is_done(); });
    return loop_.result();
  }

 private:
  static constexpr int kPauses = 16;  // before the caller sleeps

  bool is_done() const { return done_.load(std::memory_order_acquire) >= loop_.blocks(); }

  HostedLoop loop_;
  std::atomic<int32_t> done_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
};

}  // namespace pto
