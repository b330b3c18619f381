// SPDX-License-Identifier: Apache-2.0
// Mailbox: messages between the host and one worker process, in a region of their own.
//
//     Mailbox mailbox = Mailbox::make();                       // the host
//     if (char* record = mailbox.to_worker().begin_write(bytes)) {
//       std::memcpy(record, message, bytes);
//       mailbox.to_worker().end_write();
//       mailbox.ring_worker();
//     }
//     Mailbox mine(region);                                    // the worker
//     mine.wait_for_message(spin_us);
//
// The worker takes its messages in order and answers each task. Without messages it sleeps on a
// futex; the host sleeps on a file descriptor, after want_bell() has asked the worker to ring.
// Invariant: only POD crosses. `current` names the task that the worker has begun, so that the host
// knows what a dead worker was doing.
// Thread safety: one thread of the host at a time, and the worker's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "pto/tasks/book/task_book.hpp"
#include "pto/tasks/processes/shared_memory.hpp"
#include "pto/tasks/processes/shared_ring.hpp"

namespace pto {

enum class MessageKind : uint32_t { Load, Forget, Task, Stop };

// Every message begins with it.
struct MessageHead {
  MessageKind kind;
  uint32_t program;
};

// The image of a program (program_image.hpp); it stays in the heap while the program is loaded.
struct LoadMessage {
  MessageHead head;
  int64_t offset, bytes;
};

// Followed by `tensors` TensorMessages, each with its sizes and strides; `scalars` numbers of 8
// bytes, then their kinds of 1 byte; and `follows` ids of tasks of this worker: the task is skipped
// if one of them failed.
struct TaskMessage {
  MessageHead head;
  uint64_t task, run;
  uint32_t tensors, scalars, follows;
  uint32_t is_timed;
  double deadline_s;  // of the run, on the monotonic clock; 0: none
};
struct TensorMessage {
  int64_t offset;        // of element 0 in the heap's region
  int64_t extent_bytes;  // from there on
  int32_t rank;
  uint8_t type_code, type_bits;
  uint16_t flags;  // as in pto_tensor
};

// Followed by `text_bytes` of an error.
struct Answer {
  uint64_t task;
  Outcome outcome;
  uint32_t text_bytes;
  uint64_t start_ns;  // on the monotonic clock, if timed
  uint64_t duration_ns;
};

class Mailbox {
 public:
  // Allocates a region. Throws Error if the system has no memory.
  static Mailbox make();
  explicit Mailbox(std::shared_ptr<SharedRegion> region);

  SharedRing& to_worker() { return to_worker_; }
  SharedRing& to_host() { return to_host_; }
  const SharedRegion& region() const { return *region_; }

  // The host's side.
  void ring_worker();  // after every message
  bool is_ready() const { return words_->is_ready.load(std::memory_order_acquire) != 0; }
  uint64_t current_task() const { return words_->current.load(std::memory_order_acquire); }
  // Asks for a ring at the next answer, or at the first after which the worker is idle.
  void want_bell(bool at_once) {
    const uint32_t wanted = at_once ? kAtOnce : kWhenIdle;
    if (words_->wants_bell.load(std::memory_order_relaxed) < wanted)
      words_->wants_bell.store(wanted, std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // Makes the worker skip tasks up to this one that it has not begun.
  void refuse_until(uint64_t task) { words_->refused.store(task, std::memory_order_release); }

  // The worker's side.
  void set_ready() { words_->is_ready.store(1, std::memory_order_release); }
  void set_current(uint64_t task) { words_->current.store(task, std::memory_order_release); }
  void wait_for_message(int spin_us);
  uint64_t refused() const { return words_->refused.load(std::memory_order_acquire); }
  // Called after an answer: true if the host wants a ring; it must ask again for the next.
  bool takes_bell(bool is_idle) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t wanted = words_->wants_bell.load(std::memory_order_relaxed);
    return wanted >= (is_idle ? kWhenIdle : kAtOnce) &&
           words_->wants_bell.exchange(0, std::memory_order_seq_cst) != 0;
  }

 private:
  struct Words {
    alignas(64) std::atomic<uint32_t> messages;  // how many there were; the worker sleeps on it
    std::atomic<uint32_t> sleeps;
    alignas(64) std::atomic<uint64_t> current;
    std::atomic<uint32_t> is_ready;
    alignas(64) std::atomic<uint32_t> wants_bell;
    std::atomic<uint64_t> refused;
  };
  static constexpr uint32_t kWhenIdle = 1, kAtOnce = 2;
  static constexpr uint32_t kRingBytes = 1 << 18;
  static int64_t bytes() { return int64_t(sizeof(Words)) + 2 * SharedRing::bytes_for(kRingBytes); }

  std::shared_ptr<SharedRegion> region_;
  Words* words_;
  SharedRing to_worker_, to_host_;
};

}  // namespace pto
