// SPDX-License-Identifier: Apache-2.0
// Pipe state: the state of a pipe as the public simulator shows it, see
// pto/isa/sync/pipe_state.hpp.
//
//     cpu_sim::register_hooks(nullptr, (void*)&memory_for_state);   // void* (uint64_t key, size_t)
//
// Invariant: a state is filled from the runtime's queue when the queue went on since the last time.
// It lies in the hook's memory, zero at first, or in the program's.
// Thread safety: the mutex guards a state.
#pragma once
#include <pto/pto-inst.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>

namespace pto {
namespace cpu_sim {

using PipeStateHook = void* (*)(uint64_t key, size_t bytes);
inline PipeStateHook pipe_state_hook = nullptr;

// Counts of both directions together where a pipe has two.
template <class Pipe, uint32_t SlotNum>
struct PipeState {
  std::mutex mutex;
  int next_producer_slot = 0, next_c2v_consumer_slot = 0, next_v2c_consumer_slot = 0;
  int occupied = 0, popped_not_freed = 0;
  std::array<int, 2> popped_not_freed_by_lane{};
  std::array<uint32_t, SlotNum> producers_allocated{}, producers_done{};  // lanes, as bits

  // Copies the progress of the queues.
  void fill() {
    std::array<int64_t, 16> turns{};
    pto_ring_progress(Pipe::key(1), turns.data());
    pto_ring_progress(Pipe::key(0), turns.data() + 8);
    if (turns == seen_) return;
    seen_ = turns;
    const auto slot = [](int64_t turn) { return int(turn % int64_t(SlotNum)); };
    const int64_t full = turns[6] + turns[14], freed = turns[7] + turns[15];
    next_producer_slot = slot(full);
    next_c2v_consumer_slot = slot(turns[7]);
    next_v2c_consumer_slot = slot(turns[15]);
    occupied = int(full - freed);
    popped_not_freed = int(std::max(turns[2], turns[3]) + turns[10] - freed);
    producers_done.fill(0);
    for (int lane = 0; lane < 2; ++lane) {
      popped_not_freed_by_lane[lane] = int(turns[2 + lane] - turns[4 + lane]);
      if (turns[8 + lane] > turns[14]) producers_done[slot(turns[14])] |= 1u << lane;
    }
    producers_allocated = producers_done;
  }

 private:
  std::array<int64_t, 16> seen_{};
};

template <class State>
struct PipeStateStorage {
  std::atomic<uint32_t> init_state{0};  // 0, 1 while somebody makes the state, 2
  alignas(State) unsigned char payload[sizeof(State)]{};

  State& state() {
    uint32_t expected = 0;
    if (init_state.compare_exchange_strong(expected, 1)) {
      new (payload) State();
      init_state = 2;
    }
    while (init_state != 2) std::this_thread::yield();
    return *std::launder(reinterpret_cast<State*>(payload));
  }
};

template <class Pipe, class State>
State& stored_state() {
  using Storage = PipeStateStorage<State>;
  static Storage own;
  if (pipe_state_hook) {
    const auto key = uint64_t(reinterpret_cast<uintptr_t>(Pipe::key(1)));
    if (void* given = pipe_state_hook(key, sizeof(Storage)))
      return static_cast<Storage*>(given)->state();
  }
  return own.state();
}

template <class Pipe, class State>
State& state_of_pipe() {
  Pipe::refresh = [] {
    State& state = stored_state<Pipe, State>();
    const std::lock_guard<std::mutex> lock(state.mutex);
    state.fill();
  };
  Pipe::refresh();
  return stored_state<Pipe, State>();
}

// Sets functions of another runtime: the lane of the calling core, uint32_t (*)(), and a pipe
// state's memory; null for ours.
inline void register_hooks(void* lane_index, void* pipe_state) {
  isa::lane_hook = reinterpret_cast<uint32_t (*)()>(lane_index);
  pipe_state_hook = reinterpret_cast<PipeStateHook>(pipe_state);
}

}  // namespace cpu_sim
}  // namespace pto
