// SPDX-License-Identifier: Apache-2.0
// Executor: applies PyTorch's thread setting, and uses its parallel loop as ours.
//
//     pto_torch_operator_run(&call);     // HostThreads applies to the calling thread meanwhile
//
// PyTorch's pool runs the blocks unless pto_torch_use_host_pool(0) chose ours; docs/why.md has the
// measurements. torch.set_num_threads() counts for both.
// Invariant: HostThreads restores the thread's setting at the end of its scope.
// Thread safety: any thread may call every function.
#pragma once

#include <optional>

#include "pto/abi/operator.h"
#include "pto/launch/pool.hpp"

extern "C" int32_t pto_torch_operator_run(const pto_operator_call* call);
extern "C" int32_t pto_torch_site_run(pto_operator_site* site, const pto_operator_call* call);
extern "C" int32_t pto_torch_launch_run(pto_operator_launch* launch);

namespace pto::torch_adapter {

// Runs all blocks on PyTorch's pool, at most torch.get_num_threads() at once.
int32_t parallel_on_torch(void* user, int32_t blocks, BlockFunction function, void* context);

// Returns torch.get_num_threads() of the calling thread.
int torch_threads();

// Says whether PyTorch's pool runs the blocks.
bool uses_host_pool();

// While it lives, launches of this thread use as many threads as PyTorch is set to, and its pool
// where uses_host_pool().
class HostThreads {
 public:
  HostThreads() : limit_(torch_threads()) {
    if (uses_host_pool()) executor_.emplace(parallel_on_torch, nullptr);
  }

 private:
  ScopedThreadLimit limit_;
  std::optional<ScopedExecutor> executor_;
};

}  // namespace pto::torch_adapter
