// SPDX-License-Identifier: Apache-2.0
// Stream: an ordered queue of kernels of one device; Mark: a point of a stream for which others
// wait.
//
//     Stream& s = current_stream(device);
//     s.submit(std::make_unique<Copy>(to, from), Length::Long);   // returns at once
//     s.wait();                                                   // all of it has run
//
// A short kernel on an idle stream runs on the calling thread; all others run on the stream's own
// thread, which the first of them starts. Streams are numbered; 0 is a device's default.
// Invariant: kernels of a stream run one after another in the order of submission. A stream lives
// as long as the process. submit() throws the error of a kernel that it runs itself, the next
// wait() that of one on the stream's thread; later kernels still run.
// fork() waits for pending kernels, so that the child sees memory in program order; it has all
// streams, empty.
// Thread safety: any thread may call every function; each thread has its own current stream.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace pto::npu {

constexpr int kMaxDevices = 16;
constexpr int kStreams = 33;  // of a device: the default one and a pool

// The work of a stream; destroyed before the stream counts it as done.
class StreamKernel {
 public:
  virtual ~StreamKernel() = default;
  virtual void run() = 0;
};

// Short: handing it to another thread would cost more than it saves.
enum class Length { Short, Long };

// A point of a stream: whether it has been passed, and when.
class Mark {
 public:
  void pass();
  void wait();
  bool is_passed() const { return passed_at_ns_.load(std::memory_order_acquire) != 0; }
  int64_t passed_at_ns() const { return passed_at_ns_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> passed_at_ns_{0};
  std::mutex mutex_;
  std::condition_variable passed_;
};

class Stream {
 public:
  Stream(int device, int number, uint64_t submitted = 0);

  void submit(std::unique_ptr<StreamKernel> kernel, Length length);

  // If nothing is pending, makes the caller the stream's kernel until leave(); else returns false.
  // The caller's own wait() meanwhile returns at once.
  bool enter_if_idle();
  void leave();

  // Returns when everything submitted before has run; throws the first error of it.
  void wait() {
    if (!is_quiet()) wait_slowly();
  }
  bool is_idle() const { return pending_.load(std::memory_order_acquire) == 0; }

  std::shared_ptr<Mark> record();
  void wait_for(std::shared_ptr<Mark> mark);  // later kernels wait, the caller does not

  void stop();  // runs what is pending; later kernels run on their callers

 private:
  friend class Fork;
  friend class Running;
  void wait_for_submitted(std::unique_lock<std::mutex>& lock);
  bool is_quiet() const { return is_idle() && !has_error_.load(std::memory_order_acquire); }
  void wait_slowly();
  void release(std::unique_lock<std::mutex>& lock);
  void work();
  void run_caught(StreamKernel& kernel) noexcept;

  const int device_, number_;
  std::mutex mutex_;
  std::condition_variable filled_, done_changed_;
  std::deque<std::unique_ptr<StreamKernel>> queue_;
  std::atomic<int64_t> pending_{0};
  uint64_t submitted_, done_;
  int waiting_ = 0;
  bool is_busy_ = false, is_stopping_ = false;
  std::thread::id holder_;  // the thread that runs a kernel, while is_busy_
  std::atomic<bool> has_error_{false};
  std::string error_;
  std::thread thread_;
};

// Says whether the calling thread runs a kernel of a stream; what that launches is part of it.
bool runs_kernel();

// Returns the text of a kernel's error; null: what() is the text.
using TextOf = std::string (*)(const std::exception& error);

// Makes the streams, which survive fork() and stop at exit; call it once, before all else. Throws
// std::runtime_error if PTO_NPU_DEVICES is malformed.
void make_streams(TextOf text_of = nullptr);

int device_count();

int current_device();
void set_current_device(int device);  // unchecked
int exchange_device(int device);

Stream& stream(int device, int number);
int current_stream_number(int device);
void set_current_stream(int device, int number);
inline Stream& current_stream(int device) { return stream(device, current_stream_number(device)); }
int next_pool_stream(int device);

// Waits for all streams of a device; throws an error of their kernels.
void wait_for_device(int device);

}  // namespace pto::npu
