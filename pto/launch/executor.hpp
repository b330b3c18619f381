// SPDX-License-Identifier: Apache-2.0
// Executor: a host framework's threads run the launches of a thread, in place of our pool.
//
//     const ScopedExecutor executor(run_on_host, &host);
//     parallel_for(64, add, &sum);   // calls run_on_host(&host, 64, ...)
//
// C++17, as TensorFlow's adapter is.
// Thread safety: an object belongs to the thread that made it.
#pragma once

#include <cstdint>

namespace pto {

// Runs one block; a non-zero result stops the launch early. An exception counts as kBlockThrew.
using BlockFunction = int32_t (*)(void* context, int32_t block);

inline constexpr int32_t kBlockThrew = -1;

// A host framework's parallel loop: calls function(context, block) for all blocks and returns the
// first non-zero result.
using ParallelFor = int32_t (*)(void* user, int32_t blocks, BlockFunction function, void* context);

// While it lives, launches of this thread run on `run` instead of the pool.
class ScopedExecutor {
 public:
  ScopedExecutor(ParallelFor run, void* user);
  ~ScopedExecutor();
  ScopedExecutor(const ScopedExecutor&) = delete;
  ScopedExecutor& operator=(const ScopedExecutor&) = delete;

 private:
  ParallelFor outer_run_;
  void* outer_user_;
};

// While it lives, launches of this thread use at most `threads` threads (a framework's setting).
class ScopedThreadLimit {
 public:
  explicit ScopedThreadLimit(int threads);
  ~ScopedThreadLimit();
  ScopedThreadLimit(const ScopedThreadLimit&) = delete;
  ScopedThreadLimit& operator=(const ScopedThreadLimit&) = delete;

 private:
  int outer_;
};

}  // namespace pto
