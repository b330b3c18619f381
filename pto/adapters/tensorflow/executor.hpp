// SPDX-License-Identifier: Apache-2.0
// Executor: runs our parallel loop on TensorFlow's intra-op threads.
//
//     const HostThreads threads(pool);   // launches of this thread run there while it lives
//
// One pool serves both: two would compete for the cores.
// Thread safety: any thread may call every function.
#pragma once

#include <algorithm>
#include <memory>

#include "pto/launch/hosted_loop.hpp"
#include "tensorflow/core/platform/threadpool.h"

namespace pto::tensorflow_adapter {

inline int32_t parallel_on_tensorflow(void* pool, int32_t blocks, BlockFunction function,
                                      void* context) {
  auto& threads = *static_cast<tensorflow::thread::ThreadPool*>(pool);
  const auto loop = std::make_shared<SharedLoop>(blocks, function, context);
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
