// SPDX-License-Identifier: Apache-2.0
// Block: the code that a thread or a fiber runs now, and the launch that it belongs to.
//
//     t_block.index;               // index of the running block
//     run_block(launch, 3);        // runs block 3 here, on this stack
//
// A launch with lanes gives every block several cores: `lanes` vector cores and, with has_cube, a
// cube core in front of them. A core runs as a block does; "block" means either below.
//
// Invariant: t_block follows the code: a fiber that is resumed finds its own.
// Thread safety: each thread has its own t_block; a Launch shares only the members that say so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "pto/abi/host.h"
#include "pto/launch/scratch.hpp"

namespace pto {

class Stores;
class Sync;
class Worker;
struct BlockFiber;
struct BlockFlags;
struct Launch;

// The memories of the tile locations; each is made when a block first assigns a tile there.
class BlockMemory {
 public:
  explicit BlockMemory(bool is_zero = false) : is_zero_(is_zero) {}  // true: zeros at first
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  ~BlockMemory() { free(); }

  void* at(int32_t location, size_t bytes);  // null when memory is exhausted
  void free();

 private:
  static constexpr int kLocations = 16;
  const bool is_zero_;
  void* start_[kLocations] = {};
};

struct Block {
  int32_t index = 0, count = 1;
  int32_t lane = 0, lanes = 1;  // the block's vector cores
  int32_t core = PTO_CORE_ANY;
  int32_t position = 0;  // among all cores of the launch
  const pto_args* args = nullptr;
  Launch* launch = nullptr;
  int32_t* next_core = nullptr;     // of this block, for a thread that runs its cores one by one
  Worker* worker = nullptr;         // set once a block on this stack has waited
  BlockFiber* fiber = nullptr;      // null: on its thread's stack
  BlockFlags* flags = nullptr;      // set once it has set or awaited a flag of its own
  ScratchStack* scratch = nullptr;  // null: the thread's, not yet asked for
  BlockMemory* memory = nullptr;    // null: the thread's
};

// Initial-exec storage needs no call to find it; every launch would pay for that several times.
#define PTO_FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) constinit thread_local
extern PTO_FAST_THREAD_LOCAL Block t_block;

// One launch: what all its blocks share.
struct Launch {
  Launch(pto_kernel function, const pto_args& given, int32_t block_count);  // on its thread
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  int32_t cores_per_block() const { return lanes + has_cube; }
  int32_t positions() const { return blocks * cores_per_block(); }
  int32_t block_at(int32_t position) const {
    return has_roles || lanes > 1 ? position / cores_per_block() : position;
  }

  // Keeps the first text. Any thread may call it.
  void keep(const char* what) noexcept;

  // Returns the state in which the blocks wait for each other; the first call makes it. Any thread.
  Sync& sync();
  Sync* sync_if_any() const { return sync_.load(std::memory_order_acquire); }

  pto_services services;
  pto_args args;
  pto_kernel kernel;
  int32_t blocks;
  int32_t lanes = 1;
  int32_t has_cube = 0;
  bool has_roles = false;       // false: every core is both a cube and a vector core
  const bool is_interruptible;  // its thread runs a program that may be interrupted
  std::atomic<bool> has_text{false};
  std::atomic<bool> has_failed{false};  // set after the text is complete, or without one
  std::string text;  // one block writes it and sets has_text; read after the last block
  std::atomic<Stores*> stores{nullptr};  // for kernels that check themselves

 private:
  friend bool others_launch(const Launch& launch);
  std::atomic<int>& presence_;  // counts the launches of this launch's thread
  std::atomic<Sync*> sync_{nullptr};
};

// Runs one core and returns its code; keeps an exception as the launch's text.
int32_t run_block(Launch& launch, int32_t position) noexcept;
// Does the same with these arguments, sets the block in them, and needs a thread that is in a
// KernelFloatState.
int32_t run_block(Launch& launch, int32_t position, pto_args& args) noexcept;

// While it lives, the thread computes as kernels do: it rounds to nearest, keeps subnormals and has
// no traps. The destructor restores the earlier state, sticky flags included.
class KernelFloatState {
 public:
#if defined(__x86_64__)
  KernelFloatState() : outer_(__builtin_ia32_stmxcsr()) {
    constexpr unsigned kFlags = 0x3f, kKernel = 0x1f80;
    if ((outer_ & ~kFlags) != kKernel) __builtin_ia32_ldmxcsr(kKernel);
  }
  ~KernelFloatState() { __builtin_ia32_ldmxcsr(outer_); }
  KernelFloatState(const KernelFloatState&) = delete;
  KernelFloatState& operator=(const KernelFloatState&) = delete;

 private:
  const unsigned outer_;
#endif
};

// Runs on this thread the cores of a block, except those that a waiting core has begun meanwhile.
int32_t run_cores(Launch& launch, int32_t block) noexcept;

void note_wait();  // the running core has waited: it follows earlier stores of others

// True where another thread than the one that called `launch` may serve its signals: that thread
// runs a launch now, or has waited outside launches.
bool others_launch(const Launch& launch);
void count_thread_as_rank();  // counts the calling thread from now on

}  // namespace pto
