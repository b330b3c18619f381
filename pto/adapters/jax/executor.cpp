// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/jax/executor.hpp"

#include <algorithm>
#include <memory>

#include "pto/launch/hosted_loop.hpp"

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

// Tasks own the loop together with the caller.
void help(void* held) {
  const std::unique_ptr<std::shared_ptr<SharedLoop>> loop(
      static_cast<std::shared_ptr<SharedLoop>*>(held));
  (*loop)->help();
}

// A ParallelFor on XLA's pool.
int32_t parallel_on_xla(void* user, int32_t blocks, BlockFunction function, void* context) {
  const CallFrame& frame = *static_cast<const CallFrame*>(user);
  const auto loop = std::make_shared<SharedLoop>(blocks, function, context);
  const int helpers = std::min({blocks, num_threads(), threads_of(frame)}) - 1;
  for (int i = 0; i < helpers; ++i) {
    auto held = std::make_unique<std::shared_ptr<SharedLoop>>(loop);
    xla_ffi::ScheduleArguments arguments{sizeof arguments, nullptr, frame.context, &help,
                                         held.get()};
    if (!succeeded(*frame.api, frame.api->schedule(&arguments))) break;
    static_cast<void>(held.release());  // the task's
  }
  return loop->run();
}

}  // namespace

XlaThreads::XlaThreads(const CallFrame& frame)
    : executor_(parallel_on_xla, const_cast<CallFrame*>(&frame)) {}

}  // namespace pto::jax_adapter
