// SPDX-License-Identifier: Apache-2.0
#include "pto/device/npu/stream.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "pto/base/blocked_signals.hpp"
#include "pto/base/clock.hpp"
#include "pto/base/error_message.hpp"

namespace pto::npu {
namespace {

TextOf error_text = nullptr;

thread_local int t_device = 0;
thread_local std::array<int, kMaxDevices> t_streams{};
thread_local int t_running = 0;  // kernels, one inside another

int read_device_count() {
  const char* text = std::getenv("PTO_NPU_DEVICES");
  if (text == nullptr || *text == '\0') return 2;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end == '\0' && count >= 1 && count <= kMaxDevices) return static_cast<int>(count);
  throw std::runtime_error(
      error_message("PTO_NPU_DEVICES is \"" + std::string(text) + "\"",
                    "it is the number of npu devices of the process",
                    "set it to a number from 1 to " + std::to_string(kMaxDevices)));
}

using Streams = std::array<std::atomic<Stream*>, kMaxDevices * kStreams>;

Streams& streams() {
  static Streams* const all = [] {
    auto* made = new Streams;  // outlives every thread
    for (int i = 0; i < device_count() * kStreams; ++i) {
      (*made)[static_cast<size_t>(i)] = new Stream(i / kStreams, i % kStreams);
    }
    return made;
  }();
  return *all;
}

// Passes a mark, or waits for it.
class MarkKernel final : public StreamKernel {
 public:
  using Step = void (Mark::*)();
  MarkKernel(std::shared_ptr<Mark> mark, Step step) : mark_(std::move(mark)), step_(step) {}
  void run() override { ((*mark_).*step_)(); }

 private:
  std::shared_ptr<Mark> mark_;
  Step step_;
};

}  // namespace

// Marks that the calling thread runs a kernel, while it lives.
class Running {
 public:
  Running() { ++t_running; }
  ~Running() { --t_running; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

bool runs_kernel() { return t_running > 0; }

void Mark::pass() {
  const std::lock_guard lock(mutex_);
  passed_at_ns_.store(now_ns(), std::memory_order_release);
  passed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [this] { return is_passed(); });
}

Stream::Stream(int device, int number, uint64_t submitted)
    : device_(device), number_(number), submitted_(submitted), done_(submitted) {}

void Stream::submit(std::unique_ptr<StreamKernel> kernel, Length length) {
  std::unique_lock lock(mutex_);
  const bool runs_here = is_stopping_ || (length == Length::Short && queue_.empty() && !is_busy_);
  if (!runs_here) {  // before it counts: nobody would run it where the system has no thread
    if (const BlockedSignals blocked; !thread_.joinable())
      thread_ = std::thread(&Stream::work, this);
    queue_.push_back(std::move(kernel));
  }
  ++submitted_;
  pending_.fetch_add(1, std::memory_order_relaxed);
  if (runs_here) {
    done_changed_.wait(lock, [this] { return !is_busy_ && queue_.empty(); });
    is_busy_ = true;
    holder_ = std::this_thread::get_id();
    lock.unlock();
    std::exception_ptr thrown;
    try {
      const Running running;
      kernel->run();
    } catch (...) {
      thrown = std::current_exception();
    }
    kernel.reset();
    lock.lock();
    release(lock);
    if (thrown) std::rethrow_exception(thrown);
    return;
  }
  const bool is_asleep = !is_busy_;
  lock.unlock();
  if (is_asleep) filled_.notify_one();
}

bool Stream::enter_if_idle() {
  const std::lock_guard lock(mutex_);
  if (is_busy_ || !queue_.empty()) return false;
  is_busy_ = true;
  holder_ = std::this_thread::get_id();
  ++submitted_;
  pending_.fetch_add(1, std::memory_order_relaxed);
  ++t_running;
  return true;
}

void Stream::leave() {
  --t_running;
  std::unique_lock lock(mutex_);
  release(lock);
}

// Ends the kernel that held the stream.
void Stream::release(std::unique_lock<std::mutex>& lock) {
  is_busy_ = false;
  holder_ = {};
  ++done_;
  pending_.fetch_sub(1, std::memory_order_release);
  if (waiting_ > 0 || is_stopping_) done_changed_.notify_all();
  const bool wake = !queue_.empty();
  lock.unlock();
  if (wake) filled_.notify_one();
}

void Stream::run_caught(StreamKernel& kernel) noexcept {
  std::string text;
  const Running running;
  try {
    kernel.run();
    return;
  } catch (const std::exception& error) {
    text = error_text == nullptr ? error.what() : error_text(error);
  } catch (...) {
    text = "an exception of an unknown type";
  }
  const std::lock_guard lock(mutex_);
  if (has_error_) return;
  error_ = "an asynchronous kernel on npu:" + std::to_string(device_) + ", stream " +
           std::to_string(number_) + ", failed: " + text;
  has_error_ = true;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [this] { return !is_busy_ && (!queue_.empty() || is_stopping_); });
    if (queue_.empty()) return;
    std::unique_ptr<StreamKernel> kernel = std::move(queue_.front());
    queue_.pop_front();
    is_busy_ = true;
    holder_ = std::this_thread::get_id();
    lock.unlock();
    run_caught(*kernel);
    kernel.reset();
    lock.lock();
    release(lock);
    lock.lock();
  }
}

void Stream::wait_slowly() {
  std::unique_lock lock(mutex_);
  wait_for_submitted(lock);
  if (!has_error_) return;
  has_error_ = false;
  throw std::runtime_error(std::exchange(error_, {}));
}

void Stream::wait_for_submitted(std::unique_lock<std::mutex>& lock) {
  if (std::this_thread::get_id() == holder_) return;  // a kernel does not wait for itself
  const uint64_t goal = submitted_;
  ++waiting_;
  done_changed_.wait(lock, [&] { return done_ >= goal; });
  --waiting_;
}

std::shared_ptr<Mark> Stream::record() {
  auto mark = std::make_shared<Mark>();
  if (is_idle()) {
    mark->pass();
  } else {
    submit(std::make_unique<MarkKernel>(mark, &Mark::pass), Length::Short);
  }
  return mark;
}

void Stream::wait_for(std::shared_ptr<Mark> mark) {
  if (mark->is_passed()) return;
  submit(std::make_unique<MarkKernel>(std::move(mark), &Mark::wait), Length::Long);
}

void Stream::stop() {
  std::unique_lock lock(mutex_);
  is_stopping_ = true;
  lock.unlock();
  filled_.notify_one();
  if (thread_.joinable()) thread_.join();
}

int device_count() {
  static const int count = read_device_count();
  return count;
}

int current_device() { return t_device; }
void set_current_device(int device) { t_device = device; }
int exchange_device(int device) { return std::exchange(t_device, device); }

Stream& stream(int device, int number) {
  return *streams()[static_cast<size_t>(device * kStreams + number)].load(
      std::memory_order_acquire);
}

int current_stream_number(int device) { return t_streams[static_cast<size_t>(device)]; }

void set_current_stream(int device, int number) { t_streams[static_cast<size_t>(device)] = number; }

int next_pool_stream(int device) {
  static std::array<std::atomic<uint32_t>, kMaxDevices> next{};
  const uint32_t turn = next[static_cast<size_t>(device)].fetch_add(1, std::memory_order_relaxed);
  return 1 + static_cast<int>(turn % (kStreams - 1));
}

void wait_for_device(int device) {
  std::exception_ptr thrown;
  for (int number = 0; number < kStreams; ++number) {
    try {
      stream(device, number).wait();
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

// Holds all streams still around fork(), with nothing pending; the child gets new ones, since it
// has none of the threads.
class Fork {
 public:
  static void prepare() {
    while (!lock_if_idle()) {
      for (auto& one : streams()) {  // with no lock of another: a kernel may use other streams
        Stream* const s = one.load();
        if (s == nullptr || s->is_idle()) continue;
        std::unique_lock lock(s->mutex_);
        s->wait_for_submitted(lock);
      }
    }
  }
  static void parent() {
    for (auto& one : streams()) {
      if (Stream* s = one.load()) s->mutex_.unlock();
    }
  }
  static void child() {
    for (auto& one : streams()) {
      if (Stream* s = one.load()) one = new Stream(s->device_, s->number_, s->submitted_);
    }
  }

 private:
  // Locks all streams, or returns false with nothing locked if one has work other than the forking
  // thread's own.
  static bool lock_if_idle() {
    bool is_idle = true;
    for (auto& one : streams()) {
      Stream* const s = one.load();
      if (s == nullptr) continue;
      s->mutex_.lock();
      const bool is_mine = s->is_busy_ && s->holder_ == std::this_thread::get_id();
      is_idle = is_idle && (s->is_idle() || is_mine);
    }
    if (!is_idle) parent();
    return is_idle;
  }
};

void make_streams(TextOf text_of) {
  error_text = text_of;
  streams();
  pthread_atfork(Fork::prepare, Fork::parent, Fork::child);
  std::atexit([] {
    for (auto& one : streams()) {
      if (Stream* s = one.load()) s->stop();
    }
  });
}

}  // namespace pto::npu
