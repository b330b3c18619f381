// SPDX-License-Identifier: Apache-2.0
// Async: the event that an asynchronous instruction returns, and a session waits for.
//
//     auto event = TPREFETCH_ASYNC(view, context);
//     event.Wait(context.session);
//
// Invariant: instructions complete before they return here, so an event has always happened.
// Thread safety: values.
#pragma once
#include "pto/isa/tile/types.hpp"

PTO_NAMESPACE_BEGIN
namespace comm {

struct AsyncSession {};

struct AsyncEvent {
  constexpr bool valid() const { return true; }
  PTO_INLINE bool Wait(const AsyncSession&) const { return true; }
  PTO_INLINE bool Test(const AsyncSession&) const { return true; }
  PTO_INLINE void Wait() const {}
};

}  // namespace comm
PTO_NAMESPACE_END
