// SPDX-License-Identifier: Apache-2.0
// Says whether PyTorch would only run the kernel of a call: no mode, transform, tracing, autocast
// or profiler is active on this thread. Then @pto.jit runs its kernel at once, else through its
// operator.
//
// It reads what has no stable interface: the thread's dispatch keys, as the bits in which they
// differ from PyTorch's own, and two questions. Source: c10/core/impl/LocalDispatchKeySet.h of
// 2.13.
// Thread safety: any thread may ask; the bits to ignore are set once, before.
#include <atomic>
#include <cstdint>

namespace c10::impl {
struct LocalKeys {
  uint64_t included, excluded;
};
extern __thread LocalKeys raw_local_dispatch_key_set;
}  // namespace c10::impl
namespace at::impl {
bool torch_function_mode_enabled();
}
namespace torch::profiler::impl {
bool profilerEnabled();
}

namespace pto::torch_adapter {
namespace {

std::atomic<uint64_t> ignored_included{0}, ignored_excluded{0};

int is_plain() {
  const c10::impl::LocalKeys& keys = c10::impl::raw_local_dispatch_key_set;
  return (keys.included & ~ignored_included.load(std::memory_order_relaxed)) == 0 &&
         (keys.excluded & ~ignored_excluded.load(std::memory_order_relaxed)) == 0 &&
         !at::impl::torch_function_mode_enabled() && !torch::profiler::impl::profilerEnabled();
}

}  // namespace
}  // namespace pto::torch_adapter

// Reads the thread's dispatch keys, as the bits in which they differ from PyTorch's own.
extern "C" void pto_torch_keys(uint64_t* included, uint64_t* excluded) {
  *included = c10::impl::raw_local_dispatch_key_set.included;
  *excluded = c10::impl::raw_local_dispatch_key_set.excluded;
}

// Sets the bits that do not count: those of gradients, since each tensor is asked for its own.
extern "C" void pto_torch_ignore_keys(uint64_t included, uint64_t excluded) {
  pto::torch_adapter::ignored_included.store(included);
  pto::torch_adapter::ignored_excluded.store(excluded);
}

extern "C" const void* pto_torch_plain_address() {
  return reinterpret_cast<const void*>(&pto::torch_adapter::is_plain);
}
