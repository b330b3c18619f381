// SPDX-License-Identifier: Apache-2.0
// SiteState: what XLA keeps with a call site for us: its operator, and checked and bound sizes.
//
//     if (frame.stage == kInstantiate) return make_state(frame);      // the program is loaded
//     SiteState* state = state_of(frame);                             // it runs, many times
//     pto_operator_site_run(state->site(), &call);
//
// Invariant: a call site always runs one operator with the same attributes, except operands, which
// are numbers of the call. XLA frees the state with the program.
// Thread safety: any thread.
#pragma once

#include <atomic>
#include <memory>

#include "pto/adapters/jax/ffi.hpp"
#include "pto/adapters/operator.hpp"

namespace pto::jax_adapter {

class SiteState {
 public:
  pto_operator_site* site() const { return site_.get(); }

  const pto_operator* op() const {
    return op_.load(std::memory_order_relaxed);
  }  // null: not known yet
  void set_op(const pto_operator& op) { op_.store(&op, std::memory_order_relaxed); }

 private:
  OwnedSite site_{pto_operator_site_new()};
  std::atomic<const pto_operator*> op_{nullptr};
};

// Returns null, or XLA's error.
xla_ffi::Error* make_state(const xla_ffi::CallFrame& frame);

// Returns null if there is none.
SiteState* state_of(const xla_ffi::CallFrame& frame);

}  // namespace pto::jax_adapter
