// SPDX-License-Identifier: Apache-2.0
// Pool: runs the blocks of a launch on resident threads, at most one per core.
//
//     std::atomic<int> sum{0};
//     const auto add = [](void* to, int32_t block) -> int32_t {
//       static_cast<std::atomic<int>*>(to)->fetch_add(block);
//       return 0;
//     };
//     parallel_for(64, add, &sum);
//
// Each thread takes blocks of a range of its own first (block_ranges.hpp); the caller takes part
// and returns when all are done. Idle workers spin for a while (Machine::spin_us; less where they
// get preempted), then park.
//
// Invariant: no thread exists before the first launch that can use one. A launch inside a block,
// and a launch while another thread's launch holds the pool, run on their calling thread: nothing
// waits for a busy pool, so nothing deadlocks. A child of fork() starts a pool of its own.
// Thread safety: every function may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "pto/launch/block_ranges.hpp"
#include "pto/launch/executor.hpp"
#include "pto/launch/recording.hpp"

namespace pto {

// Runs blocks 0 .. blocks-1, in any order, and returns the first non-zero result, else 0. Throws
// pto::Error only where the environment is malformed (see base/machine.hpp).
int32_t parallel_for(int32_t blocks, BlockFunction function, void* context);

// Returns how many threads a launch of the calling thread may use, the caller included.
int num_threads();

// Sets how many threads later launches of this process use: at least 1, at most the cores.
void set_num_threads(int threads);

// True while the calling thread runs a block: a launch here would run inline.
bool inside_block();

// A blocked block calls this to claim another unstarted block of the same job, which the caller
// must then run; -1 when none is left. `context` is the job's, on the calling thread.
int32_t claim_block(const void* context);

// Counts the threads that run blocks of that job now, the calling one included. A thread that takes
// no further block may be counted for a moment longer.
int threads_in_job(const void* context);

// Counts the threads that the job was meant for; some of them may come late or never.
int threads_wanted(const void* context);

// A set of resident threads. The process has one, behind parallel_for; tests make more.
//
// A job is published in one word, state_: generation, threads wanted, an open bit and the number
// of workers inside. A worker enters by adding one while the bit is set and fewer than wanted are
// inside, whichever worker it is: a wake-up reaches any of the parked. The caller closes the bit
// when no block is left and waits for the last worker inside. So a worker that wakes late finds a
// closed job or the next one, never a half-dead one.
class Pool {
 public:
  Pool(int threads_max, int spin_us);
  ~Pool();  // waits for its threads; no run() may be under way

  // Runs as parallel_for does, on at most `threads` threads. Where another caller's job holds the
  // pool it runs nothing and sets *taken to false.
  int32_t run(int32_t blocks, int threads, BlockFunction function, void* context, bool* taken);

  // These are the two steps of run(), for a caller that must know in between that it holds the
  // pool.
  bool take() { return !busy_.exchange(true, std::memory_order_acquire); }
  int32_t run_taken(int32_t blocks, int threads, BlockFunction function, void* context);

  // Lets the threads end when their blocks have returned. Any thread may call it; afterwards
  // nobody may destroy the pool.
  void retire();

  int workers() const { return static_cast<int>(workers_.size()); }

  // Implement claim_block(), threads_in_job() and threads_wanted() for a thread that runs a block
  // of this pool's job.
  int32_t claim();
  int threads_inside() const;
  int threads_wanted() const;

 private:
  void start_workers(int wanted);
  void work(uint32_t seen);
  uint64_t wait_for_job(uint32_t seen);
  bool spin_for_job(uint32_t seen, uint64_t* state);
  void take_blocks(int thread);
  void leave();
  void wait_for_workers();

  const int threads_max_;
  const int64_t spin_ns_max_;
  std::vector<std::thread> workers_;  // changed only by the caller that holds busy_

  alignas(64) std::atomic<uint64_t> state_{0};
  std::atomic<uint32_t> epoch_{0};  // counts jobs; parked workers sleep on it
  std::atomic<int32_t> parked_{0};
  std::atomic<bool> stop_{false}, is_retired_{false};
  std::atomic<bool> busy_{false};
  std::atomic<int64_t> spin_ns_;

  BlockRanges ranges_;
  std::atomic<int32_t> result_{0};

  alignas(64) std::atomic<uint32_t> left_{0};  // the caller sleeps on it for the last worker
  std::atomic<bool> caller_parked_{false};

  alignas(64) BlockFunction function_ = nullptr;  // the current job's
  void* context_ = nullptr;
  RecordedJob recorded_;
};

// Runs a launch whose blocks may never return on the process's pool; the process then gets another.
//
//     AbandonablePool pool;  // lives as long as the blocks
//     const ScopedExecutor executor(AbandonablePool::parallel_for, &pool);
//     pool.abandon();        // on another thread
//
// It runs one launch at a time, on the launching thread alone where another holds the pool.
class AbandonablePool {
 public:
  static int32_t parallel_for(void* self, int32_t blocks, BlockFunction function, void* context);

  // Lets idle threads end now, others when their blocks return; later launches run elsewhere.
  void abandon();

 private:
  Pool* take();

  std::mutex mutex_;
  Pool* held_ = nullptr;
  bool is_abandoned_ = false;
};

}  // namespace pto
