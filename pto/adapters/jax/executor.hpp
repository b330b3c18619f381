// SPDX-License-Identifier: Apache-2.0
// Executor: XLA's thread pool as the parallel loop of the kernels that a custom call runs.
//
//     const XlaThreads threads(*frame);  // while it lives, launches of this thread run there
//
// Where the caller has no pool, everything runs on its thread: XLA was told to use one.
// Invariant: nothing waits for a task that has not begun, so a pool that is busy, or that runs
// tasks in the caller, delays nothing and cannot deadlock.
// Thread safety: an object belongs to one thread.
#pragma once

#include "pto/adapters/jax/ffi.hpp"
#include "pto/launch/pool.hpp"

namespace pto::jax_adapter {

class XlaThreads {
 public:
  explicit XlaThreads(const xla_ffi::CallFrame& frame);

 private:
  ScopedExecutor executor_;
};

}  // namespace pto::jax_adapter
