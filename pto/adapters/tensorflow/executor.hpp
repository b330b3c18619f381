// SPDX-License-Identifier: Apache-2.0
// Executor: runs our parallel loop on TensorFlow's intra-op threads.
//
//     const HostThreads threads(pool);   // launches of this thread run there while it lives
//
// One pool serves both: two would compete for the cores.
// Invariant: the caller takes part and never waits for a thread that has not begun, so a busy pool
// costs speed but cannot deadlock.
// Thread safety: any thread may call every function.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "pto/launch/pool.hpp"
#include "tensorflow/core/platform/threadpool.h"

namespace pto::tensorflow_adapter {

// One loop. Helpers that begin after it was closed touch only this object, which they own together
// with the caller.
class Loop {
 public:
  Loop(int32_t blocks, BlockFunction function, void* context)
      : blocks_(blocks), function_(function), context_(context) {}

  void help() {
    inside_.fetch_add(1);  // before closed_ is read: the caller sees one of the two
    if (!closed_.load()) work();
    if (inside_.fetch_sub(1) == 1 && closed_.load()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      left_.notify_one();
    }
  }

  int32_t run() {
    work();
    closed_.store(true);
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, [this] { return inside_.load() == 0; });
    return result_.load();
  }

 private:
  void work() {
    for (;;) {
      const int32_t block = next_.fetch_add(1, std::memory_order_relaxed);
      if (block >= blocks_ || result_.load(std::memory_order_relaxed) != 0) return;
      int32_t code = kBlockThrew;
      try {
        code = function_(context_, block);
      } catch (...) {  // nothing crosses TensorFlow's threads
      }
      int32_t none = 0;
      if (code != 0) result_.compare_exchange_strong(none, code);
    }
  }

  const int32_t blocks_;
  const BlockFunction function_;
  void* const context_;
  std::atomic<int64_t> next_{0};
  std::atomic<int32_t> result_{0}, inside_{0};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable left_;
};

inline int32_t parallel_on_tensorflow(void* pool, int32_t blocks, BlockFunction function,
                                      void* context) {
  auto& threads = *static_cast<tensorflow::thread::ThreadPool*>(pool);
  const auto loop = std::make_shared<Loop>(blocks, function, context);
  const int helpers = std::min(blocks, threads.NumThreads()) - 1;
  for (int i = 0; i < helpers; ++i) threads.Schedule([loop] { loop->help(); });
  return loop->run();
}

class HostThreads {
 public:
  explicit HostThreads(tensorflow::thread::ThreadPool* pool)
      : limit_(pool->NumThreads()), executor_(parallel_on_tensorflow, pool) {}

 private:
  ScopedThreadLimit limit_;
  ScopedExecutor executor_;
};

}  // namespace pto::tensorflow_adapter
