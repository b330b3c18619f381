// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/torch/executor.hpp"

#include <algorithm>
#include <atomic>

#include "pto/adapters/torch/shim.hpp"
#include "pto/launch/hosted_loop.hpp"

namespace pto::torch_adapter {
namespace {

std::atomic<bool> host_pool{true};

void work(int64_t thread, int64_t, void* loop) {
  static_cast<HostedLoop*>(loop)->work(static_cast<int>(thread));
}

}  // namespace

int32_t parallel_on_torch(void*, int32_t blocks, BlockFunction function, void* context) {
  const int threads = std::min(blocks, torch_threads());
  HostedLoop loop(blocks, function, context, threads);
  return torch_parallel_for(0, threads, 1, &work, &loop) == 0 ? loop.result() : kBlockThrew;
}

int torch_threads() {
  uint32_t threads = 1;
  torch_get_num_threads(&threads);
  return static_cast<int>(threads);
}

bool uses_host_pool() { return host_pool.load(std::memory_order_relaxed); }

}  // namespace pto::torch_adapter

// Run an operator, and parallel_for, under PyTorch's thread setting and on its pool.
extern "C" int32_t pto_torch_operator_run(const pto_operator_call* call) {
  const pto::torch_adapter::HostThreads threads;
  return pto_operator_run(call);
}
extern "C" int32_t pto_torch_site_run(pto_operator_site* site, const pto_operator_call* call) {
  const pto::torch_adapter::HostThreads threads;
  return pto_operator_site_run(site, call);
}
extern "C" int32_t pto_torch_launch_run(pto_operator_launch* launch) {
  const pto::torch_adapter::HostThreads threads;
  return pto_operator_launch_run(launch);
}
extern "C" int32_t pto_torch_parallel(int32_t blocks, pto::BlockFunction function, void* context) {
  const pto::torch_adapter::HostThreads threads;
  return pto::parallel_for(blocks, function, context);
}

extern "C" void pto_torch_use_host_pool(int32_t yes) {
  pto::torch_adapter::host_pool.store(yes != 0);
}

// Addresses for calls that pass no operator (@pto.jit on tensors).
extern "C" const void* pto_torch_parallel_address() {
  return reinterpret_cast<const void*>(&pto::torch_adapter::parallel_on_torch);
}
extern "C" const void* pto_torch_threads_address() {
  return reinterpret_cast<const void*>(&pto::torch_adapter::torch_threads);
}
