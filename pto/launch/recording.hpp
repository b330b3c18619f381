// SPDX-License-Identifier: Apache-2.0
// Recording: when the statements of one call ran, and on which threads.
//
//     Recording recording(steps, 1 << 17);
//     recording.start();                      // this thread's calls, until stop()
//     call.run(outputs);
//     recording.stop();
//     recording.lanes().front().spans();      // of the calling thread
//
// A call without a recording pays one predictable branch for the call, a launch or a block, and
// none for a statement: a program has its own recorded form (codegen/print_program.hpp). A span
// costs two readings of the clock.
//
// Invariant: a span takes its place in the lane when it begins. The spans of a lane are therefore
// in the order of their beginnings, and a span that has a place has one for every span around it.
// Spans of a lane nest or follow each other. totals() counts also the spans that found no place,
// but none that begins inside 64 others.
// Thread safety: the calling thread starts and stops; a lane belongs to its thread meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pto/base/ticks.hpp"

namespace pto {

enum class SpanKind : int16_t {
  Call,       // of the program; its statement is -1
  Statement,  // one execution
  Job,        // blocks that run beside each other, as the thread sees it that waits for them
  Part,       // one block
  Size        // no time: the size of number `statement` has become `trip`
};

struct Span {
  uint64_t start, end;  // in ticks
  int64_t trip;         // the iteration of the innermost loop around it; -1: of none
  int32_t statement;
  SpanKind kind;
  int16_t depth;  // spans around it in its lane
};
static_assert(sizeof(Span) == 32);

struct StatementTotal {
  int64_t calls = 0;
  uint64_t ticks = 0, longest = 0;
};

// The spans of one thread; those that begin when it is full are counted.
class RecordLane {
 public:
  RecordLane(int32_t statements, size_t capacity)
      : spans_(new Span[capacity]), capacity_(capacity), totals_(size_t(statements)) {}

  void begin(SpanKind kind, int32_t statement, int64_t trip) {
    const int depth = depth_++;
    if (depth >= kMostOpen) return void(++dropped_);
    Open& open = open_[depth];
    open = {read_ticks(), nullptr, statement, kind};
    if (count_ == capacity_) return void(++dropped_);
    open.span = &spans_[count_++];
    *open.span = {open.start, open.start, trip, statement, kind, int16_t(depth)};
  }
  void end() {
    if (--depth_ >= kMostOpen) return;
    const Open& open = open_[depth_];
    const uint64_t now = read_ticks();
    if (open.span != nullptr) open.span->end = now;
    if (open.kind != SpanKind::Statement) return;
    StatementTotal& total = totals_[size_t(open.statement)];
    ++total.calls;
    total.ticks += now - open.start;
    if (now - open.start > total.longest) total.longest = now - open.start;
  }
  void note_size(int32_t symbol, int64_t value) {
    if (count_ == capacity_) return void(++dropped_);
    const uint64_t now = read_ticks();
    spans_[count_++] = {now, now, value, symbol, SpanKind::Size, int16_t(depth_)};
  }
  // Ends what a failed statement left open, too.
  void end_to(int depth) {
    while (depth_ > depth) end();
  }

  int depth() const { return depth_; }
  // The innermost statement that has begun; -1: none.
  int32_t statement() const {
    return depth_ == 0 || depth_ > kMostOpen ? -1 : open_[depth_ - 1].statement;
  }
  std::vector<Span> spans() const { return {spans_.get(), spans_.get() + count_}; }
  const std::vector<StatementTotal>& totals() const { return totals_; }
  int64_t dropped() const { return dropped_; }

 private:
  static constexpr int kMostOpen = 64;
  struct Open {
    uint64_t start;
    Span* span;
    int32_t statement;
    SpanKind kind;
  };
  const std::unique_ptr<Span[]> spans_;  // touched where it is used
  const size_t capacity_;
  size_t count_ = 0;
  int depth_ = 0;
  int64_t dropped_ = 0;
  Open open_[kMostOpen];
  std::vector<StatementTotal> totals_;
};

class Recording {
 public:
  // `capacity`: spans that a thread keeps.
  Recording(int32_t statements, size_t capacity);
  ~Recording() { stop(); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Throws Error where this thread already has a recording, or this one has been started before.
  void start();
  void stop();

  // The first lane is the calling thread's; each other thread that took part has one more.
  const std::deque<RecordLane>& lanes() const { return lanes_; }
  RecordLane& lane_of_this_thread();
  int threads() const { return threads_; }  // num_threads() of the calling thread at start()

 private:
  const int32_t statements_;
  const size_t capacity_;
  std::mutex mutex_;  // of the list of lanes
  std::deque<RecordLane> lanes_;
  std::vector<std::thread::id> owners_;
  int threads_ = 0;
  bool is_running_ = false;
};

// The recording and the lane of a thread; null: it records nothing.
struct RecordingOfThread {
  Recording* recording = nullptr;
  RecordLane* lane = nullptr;
};
extern
    __attribute__((tls_model("initial-exec"))) constinit thread_local RecordingOfThread t_recording;

// Records a span of this thread while it lives.
class RecordScope {
 public:
  RecordScope(SpanKind kind, int32_t statement) : lane_(t_recording.lane) {
    if (lane_ == nullptr) [[likely]]
      return;
    depth_ = lane_->depth();
    lane_->begin(kind, kind == SpanKind::Job ? lane_->statement() : statement, -1);
  }
  ~RecordScope() {
    if (lane_ != nullptr) [[unlikely]]
      lane_->end_to(depth_);
  }
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  RecordLane* const lane_;
  int depth_ = 0;
};

// The job whose blocks another thread may run.
struct RecordedJob {
  Recording* recording = nullptr;
  int32_t statement = -1;

  static RecordedJob of_this_thread() {
    if (t_recording.lane == nullptr) [[likely]]
      return {};
    return {t_recording.recording, t_recording.lane->statement()};
  }
};

// Records a block of a job, on whichever thread runs it, while it lives.
class RecordedPart {
 public:
  explicit RecordedPart(const RecordedJob& job) : is_recorded_(job.recording != nullptr) {
    if (is_recorded_) [[unlikely]]
      begin(job);
  }
  ~RecordedPart() {
    if (is_recorded_) [[unlikely]]
      end();
  }
  RecordedPart(const RecordedPart&) = delete;
  RecordedPart& operator=(const RecordedPart&) = delete;

 private:
  void begin(const RecordedJob& job);
  void end();

  const bool is_recorded_;
  RecordingOfThread outer_;
  int depth_ = 0;
};

}  // namespace pto
