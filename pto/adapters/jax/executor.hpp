// SPDX-License-Identifier: Apache-2.0
// XlaThreads: runs the kernels of a custom call on XLA's thread pool.
//
//     const XlaThreads threads(*frame);  // while it lives, launches of this thread run there
//
// Without a pool of the caller's, everything runs on the calling thread: XLA was told to use one.
// Invariant: nothing waits for a task that has not begun, so a busy pool, or one that runs tasks in
// the caller, delays nothing and cannot deadlock.
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
