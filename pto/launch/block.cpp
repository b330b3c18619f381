// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/block.hpp"

#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include "pto/launch/interruption.hpp"
#include "pto/launch/pool.hpp"
#include "pto/launch/stores.hpp"
#include "pto/launch/sync.hpp"

namespace pto {

PTO_FAST_THREAD_LOCAL Block t_block;

namespace {

__attribute__((noinline)) ScratchStack* scratch_of_thread() {
  static thread_local ScratchStack of_thread;
  return &of_thread;
}

ScratchStack& scratch_of_block() {
  if (t_block.scratch == nullptr) [[unlikely]]
    t_block.scratch = scratch_of_thread();
  return *t_block.scratch;
}

BlockMemory& memory_of_block() {
  static thread_local BlockMemory of_thread(true);
  return t_block.memory != nullptr ? *t_block.memory : of_thread;
}

// Sets the state around one block. On a fiber the block keeps the fiber's memory and worker; a
// launch inside a block keeps the memory and makes its own worker.
class BlockScope {
 public:
  BlockScope(Launch& launch, int32_t position, const pto_args* args)
      : mark_(scratch_of_block().mark()), outer_(t_block) {
    if (outer_.launch != nullptr) {
      t_block.worker = nullptr;
      t_block.fiber = nullptr;
    }
    t_block.flags = nullptr;
    t_block.index = args->block;
    t_block.count = launch.blocks;
    t_block.position = position;
    t_block.lane = 0;
    t_block.lanes = launch.lanes;
    t_block.core = PTO_CORE_ANY;
    t_block.args = args;
    t_block.launch = &launch;
    if (launch.has_roles || launch.lanes > 1) set_core(launch, position);
  }
  ~BlockScope() {
    if (t_block.flags != nullptr) t_block.flags->clear();
    t_block.scratch->release(mark_);
    t_block = outer_;
  }
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

 private:
  static void set_core(const Launch& launch, int32_t position) {
    t_block.lane = position % launch.cores_per_block() - launch.has_cube;
    if (launch.has_roles) t_block.core = PTO_CORE_VECTOR;
    if (t_block.lane >= 0) return;
    t_block.core = PTO_CORE_CUBE;
    t_block.lane = 0;
    t_block.lanes = 1;
  }

  const ScratchStack::Mark mark_;
  const Block outer_;
};

int32_t keep_text(pto_services* services, const char* what) {
  static_cast<Launch*>(services->state)->keep(what == nullptr ? "" : what);
  return kBlockThrew;
}

void* take_scratch(pto_services*, size_t bytes) {
  try {
    return scratch_of_block().take(bytes);
  } catch (const std::exception&) {
    return nullptr;
  }
}

int32_t call_kernel(Launch& launch, const pto_args& args) {
  try {
    int32_t code = launch.kernel(&args);
    if (code == 0 && t_block.flags != nullptr) {
      const std::string left = t_block.flags->left();
      if (left.empty()) return 0;
      launch.keep(left.c_str());
      code = kBlockThrew;
    }
    if (code != 0 && !launch.has_text.load(std::memory_order_relaxed)) {
      launch.keep(("the kernel returned " + std::to_string(code) + " in block " +
                   std::to_string(args.block) + " of " + std::to_string(launch.blocks))
                      .c_str());
    }
    return code;
  } catch (const Stopped&) {
  } catch (const std::exception& error) {
    launch.keep(error.what());
  } catch (...) {
    launch.keep("the kernel threw something that is no std::exception");
  }
  return kBlockThrew;
}

// The launches that every thread runs now.
struct Presences {
  std::mutex mutex;
  std::vector<std::atomic<int>*> all;
};
Presences& presences() {
  static Presences& list = *new Presences;  // never destroyed: threads end late
  return list;
}
struct Presence {
  std::atomic<int> launches{0};

  Presence() {
    const std::lock_guard lock(presences().mutex);
    presences().all.push_back(&launches);
  }
  ~Presence() {
    const std::lock_guard lock(presences().mutex);
    std::erase(presences().all, &launches);
  }
};
PTO_FAST_THREAD_LOCAL std::atomic<int>* t_presence = nullptr;
__attribute__((noinline)) void enter_presence() {
  static thread_local Presence of_thread;
  t_presence = &of_thread.launches;
}
std::atomic<int>& presence() {
  if (t_presence == nullptr) [[unlikely]]
    enter_presence();
  return *t_presence;
}

}  // namespace

void* BlockMemory::at(int32_t location, size_t bytes) {
  if (location < 0 || location >= kLocations) return nullptr;
  void*& start = start_[location];
  if (start != nullptr) return start;
  start = pto_malloc(bytes);
  if (is_zero_ && start != nullptr) std::memset(start, 0, bytes);
  return start;
}

void BlockMemory::free() {
  for (void*& start : start_) {
    pto_free(start);
    start = nullptr;
  }
}

Launch::Launch(pto_kernel function, const pto_args& given, int32_t block_count)
    : services{PTO_ABI_VERSION, keep_text, take_scratch, this, num_threads()},
      args(given),
      kernel(function),
      blocks(block_count),
      is_interruptible(pto::is_interruptible()),
      presence_(presence()) {
  args.services = &services;
  args.blocks = block_count;
  constexpr auto kRelaxed = std::memory_order_relaxed;  // only this thread writes it
  presence_.store(presence_.load(kRelaxed) + 1, kRelaxed);
}

Launch::~Launch() {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  presence_.store(presence_.load(kRelaxed) - 1, kRelaxed);
  delete sync_.load(std::memory_order_relaxed);
  delete stores.load(std::memory_order_relaxed);
}

void Launch::keep(const char* what) noexcept {
  if (has_text.exchange(true, std::memory_order_relaxed)) return;
  try {
    text = what;
  } catch (const std::exception&) {  // no memory for the text: the code remains
  }
}

Sync& Launch::sync() {
  Sync* sync = sync_if_any();
  if (sync != nullptr) return *sync;
  auto made = std::make_unique<Sync>(this);
  if (sync_.compare_exchange_strong(sync, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *sync;
}

int32_t run_block(Launch& launch, int32_t position) noexcept {
  pto_args args = launch.args;
  const KernelFloatState float_state;
  return run_block(launch, position, args);
}

int32_t run_block(Launch& launch, int32_t position, pto_args& args) noexcept {
  args.block = launch.block_at(position);
  const BlockScope scope(launch, position, &args);
  int32_t code = call_kernel(launch, args);
  if (code != 0) [[unlikely]] {
    launch.has_failed.store(true);
    if (Sync* sync = launch.sync_if_any()) sync->waits.stop();
  }
  if (t_block.worker != nullptr && t_block.fiber == nullptr) {
    const int32_t others = launch.sync().waits.finish_fibers();
    if (code == 0) code = others;
  }
  return code;
}

int32_t run_cores(Launch& launch, int32_t block) noexcept {
  const int32_t cores = launch.cores_per_block(), end = (block + 1) * cores;
  if (cores == 1) return run_block(launch, block);
  int32_t next = block * cores, code = 0;
  int32_t* const outer = t_block.next_core;
  while (next < end && code == 0) {
    t_block.next_core = &next;
    code = run_block(launch, next++);
  }
  t_block.next_core = outer;
  return code;
}

void count_thread_as_rank() {
  static thread_local bool is_counted = false;
  if (is_counted) return;
  is_counted = true;
  presence().store(presence().load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

bool others_launch(const Launch& launch) {
  const std::lock_guard lock(presences().mutex);
  for (const std::atomic<int>* one : presences().all) {
    if (one != &launch.presence_ && one->load(std::memory_order_relaxed) > 0) return true;
  }
  return false;
}

}  // namespace pto

int32_t pto_block_index(void) { return pto::t_block.index; }
int32_t pto_block_count(void) { return pto::t_block.count; }
int32_t pto_core(void) { return pto::t_block.core; }
int32_t pto_lane_index(void) { return pto::t_block.lane; }
int32_t pto_lane_count(void) { return pto::t_block.lanes; }

void pto_set_core(int32_t core, int32_t block, int32_t lane, int32_t lanes) {
  if (pto::t_block.launch != nullptr) return;
  pto::t_block.core = core;
  pto::t_block.index = block;
  pto::t_block.lane = lane;
  pto::t_block.lanes = lanes < 1 ? 1 : lanes;
}

void pto_set_block_count(int32_t blocks) {
  if (pto::t_block.launch == nullptr) pto::t_block.count = blocks < 1 ? 1 : blocks;
}

void* pto_block_memory(int32_t location, size_t bytes) {
  return pto::memory_of_block().at(location, bytes);
}
