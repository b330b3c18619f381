// SPDX-License-Identifier: Apache-2.0
// ReadyDeque: the ready tasks of one worker; the owner works at the bottom, thieves at the top.
//
//     if (!deque.push(task)) run(task);   // the owner; false when full
//     Task* newest = deque.pop();         // the owner
//     Task* oldest = deque.steal();       // any thread
//
// Source: D. Chase, Y. Lev, "Dynamic circular work-stealing deque", 2005, with a fixed capacity.
// Invariant: each pushed task is given out once.
// Thread safety: only the owner calls push(), pop() and has(); any thread calls the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace pto {

template <class T>
class ReadyDeque {
 public:
  explicit ReadyDeque(int64_t capacity)  // a power of two
      : mask_(capacity - 1), tasks_(std::make_unique<std::atomic<T*>[]>(size_t(capacity))) {}

  bool push(T* task) {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed);
    if (bottom - known_top_ > mask_) {
      known_top_ = top_.load(std::memory_order_acquire);
      if (bottom - known_top_ > mask_) return false;
    }
    tasks_[size_t(bottom & mask_)].store(task, std::memory_order_relaxed);
    // Sequentially consistent: a worker that looks for sleepers afterwards sees those that saw the
    // deque empty.
    bottom_.store(bottom + 1, std::memory_order_seq_cst);
    return true;
  }

  T* pop() {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    if (bottom < top_.load(std::memory_order_relaxed)) return nullptr;
    bottom_.store(bottom, std::memory_order_seq_cst);
    int64_t top = top_.load(std::memory_order_seq_cst);
    T* task = nullptr;
    if (top <= bottom) {
      task = tasks_[size_t(bottom & mask_)].load(std::memory_order_relaxed);
      if (top < bottom) return task;
      if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst)) task = nullptr;
    }
    bottom_.store(bottom + 1, std::memory_order_relaxed);
    return task;
  }

  T* steal() {
    int64_t top = top_.load(std::memory_order_seq_cst);
    if (top >= bottom_.load(std::memory_order_seq_cst)) return nullptr;
    T* const task = tasks_[size_t(top & mask_)].load(std::memory_order_relaxed);
    return top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst) ? task : nullptr;
  }

  // Returns the task that steal() would probably give, to prefetch it, not to run it. Null: none.
  T* peek() const {
    const int64_t top = top_.load(std::memory_order_relaxed);
    if (top >= bottom_.load(std::memory_order_relaxed)) return nullptr;
    return tasks_[size_t(top & mask_)].load(std::memory_order_relaxed);
  }

  // Says whether there are about `count` tasks; the owner mostly knows without reading the thieves'
  // cache line.
  bool has(int64_t count) {
    const int64_t bottom = bottom_.load(std::memory_order_relaxed);
    if (bottom - known_top_ < count) return false;
    known_top_ = top_.load(std::memory_order_relaxed);
    return bottom - known_top_ >= count;
  }

  // Returns the approximate number of tasks; it is exact if no other thread is at work.
  int64_t size() const {
    return bottom_.load(std::memory_order_seq_cst) - top_.load(std::memory_order_seq_cst);
  }

 private:
  const int64_t mask_;
  const std::unique_ptr<std::atomic<T*>[]> tasks_;
  alignas(64) std::atomic<int64_t> top_{0};
  alignas(64) std::atomic<int64_t> bottom_{0};
  alignas(64) int64_t known_top_ = 0;  // the owner's; at most top_
};

}  // namespace pto
