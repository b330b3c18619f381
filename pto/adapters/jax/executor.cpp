// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/jax/executor.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

namespace pto::jax_adapter {
namespace {

using xla_ffi::CallFrame;

// Drops an error of the API: the caller does without what it cannot ask for or schedule.
bool succeeded(const xla_ffi::Api& api, xla_ffi::Error* error) {
  if (!error) return true;
  xla_ffi::DestroyErrorArguments arguments{sizeof arguments, nullptr, error};
  api.destroy_error(&arguments);
  return false;
}

int threads_of(const CallFrame& frame) {
  int64_t threads = 1;
  xla_ffi::NumThreadsArguments arguments{sizeof arguments, nullptr, frame.context, &threads};
  if (!succeeded(*frame.api, frame.api->num_threads(&arguments))) return 1;
  return static_cast<int>(std::clamp<int64_t>(threads, 1, 1 << 16));
}

// Hands the blocks of one launch out one by one. Tasks that XLA starts late find no block left; the
// last holder frees the loop.
struct Loop {
  BlockFunction function;
  void* context;
  int32_t blocks;
  std::atomic<int32_t> next{0}, done{0}, result{0};

  void work() {
    int32_t finished = 0;
    for (;;) {
      const int32_t block = next.fetch_add(1, std::memory_order_relaxed);
      if (block >= blocks) break;
      ++finished;
      if (result.load(std::memory_order_relaxed) != 0) continue;
      int32_t none = 0;
      const int32_t code = function(context, block);
      if (code != 0) result.compare_exchange_strong(none, code);
    }
    if (finished == 0) return;
    if (done.fetch_add(finished, std::memory_order_acq_rel) + finished == blocks) done.notify_all();
  }

  void wait() {
    for (int32_t seen; (seen = done.load(std::memory_order_acquire)) < blocks;) done.wait(seen);
  }

  static void task(void* held) {
    const std::unique_ptr<std::shared_ptr<Loop>> loop(static_cast<std::shared_ptr<Loop>*>(held));
    (*loop)->work();
  }
};

// A ParallelFor on XLA's pool.
int32_t parallel_on_xla(void* user, int32_t blocks, BlockFunction function, void* context) {
  const CallFrame& frame = *static_cast<const CallFrame*>(user);
  const auto loop = std::make_shared<Loop>();
  loop->function = function;
  loop->context = context;
  loop->blocks = blocks;
  const int helpers = std::min({blocks, num_threads(), threads_of(frame)}) - 1;
  for (int i = 0; i < helpers; ++i) {
    auto held = std::make_unique<std::shared_ptr<Loop>>(loop);
    xla_ffi::ScheduleArguments arguments{sizeof arguments, nullptr, frame.context, &Loop::task,
                                         held.get()};
    if (!succeeded(*frame.api, frame.api->schedule(&arguments))) break;
    static_cast<void>(held.release());  // the task's
  }
  loop->work();
  loop->wait();
  return loop->result.load();
}

}  // namespace

XlaThreads::XlaThreads(const CallFrame& frame)
    : executor_(parallel_on_xla, const_cast<CallFrame*>(&frame)) {}

}  // namespace pto::jax_adapter
