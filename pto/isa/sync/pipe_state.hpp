// SPDX-License-Identifier: Apache-2.0
// Pipe state: the view of a pipe's queue that sources of the simulator get: Pipe::GetSharedState().
//
//     auto& state = Pipe::GetSharedState();      // with -I compat, and <mutex>
//     std::lock_guard<std::mutex> lock(state.mutex);
//     EXPECT_EQ(state.occupied, 0);
//
// Only sources of the simulator see these members of a pipe. compat/ defines the state, which holds
// a std::mutex.
//
// Invariant: the queue is the runtime's (pto_ring_...); the state is a copy of its progress, made
// at the first request and, from then on, at every step of a pipe.
// Thread safety: the mutex guards a state.
#pragma once
#include "pto/abi/host.h"
#include "pto/isa/tile/types.hpp"

#if defined(__CPU_SIM)
namespace pto {
namespace cpu_sim {
template <class Pipe, uint32_t SlotNum>
struct PipeState;
template <class State>
struct PipeStateStorage;
template <class Pipe, class State>
State& state_of_pipe();
}  // namespace cpu_sim
}  // namespace pto
#endif

PTO_NAMESPACE_BEGIN
namespace pipes {

#if defined(__CPU_SIM)
template <class Pipe, uint32_t SlotNum>
struct StateOf {
  using SharedState = cpu_sim::PipeState<Pipe, SlotNum>;
  using SharedStateStorage = cpu_sim::PipeStateStorage<SharedState>;
  static SharedState& GetSharedState() { return cpu_sim::state_of_pipe<Pipe, SharedState>(); }

  static inline void (*refresh)() = nullptr;  // set once somebody asked for the state
  static PTO_INLINE void note_progress() {
    if (refresh) refresh();
  }
};
#else
template <class Pipe, uint32_t SlotNum>
struct StateOf {
  static PTO_INLINE void note_progress() {}
};
#endif

}  // namespace pipes
PTO_NAMESPACE_END
