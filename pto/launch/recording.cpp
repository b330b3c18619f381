// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/recording.hpp"

#include <algorithm>

#include "pto/abi/program.h"
#include "pto/base/error.hpp"
#include "pto/launch/pool.hpp"

namespace pto {

constinit thread_local RecordingOfThread t_recording;

Recording::Recording(int32_t statements, size_t capacity)
    : statements_(statements), capacity_(std::max<size_t>(capacity, 1)) {
  ns_of_a_tick();  // measured before the call
}

void Recording::start() {
  if (t_recording.lane != nullptr || !lanes_.empty())
    fail({"a recording began where one was already made", "it holds one call of one thread",
          "stop the other one first, and make a new one for each call"},
         ErrorKind::Runtime);
  threads_ = num_threads();
  t_recording = {this, &lane_of_this_thread()};
  is_running_ = true;
}

void Recording::stop() {
  if (!is_running_) return;
  is_running_ = false;
  t_recording = {};
}

RecordLane& Recording::lane_of_this_thread() {
  const std::lock_guard lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  const auto known = std::find(owners_.begin(), owners_.end(), self);
  if (known != owners_.end()) return lanes_[size_t(known - owners_.begin())];
  RecordLane& made = lanes_.emplace_back(statements_, capacity_);
  owners_.push_back(self);
  return made;
}

void RecordedPart::begin(const RecordedJob& job) {
  outer_ = t_recording;
  RecordLane& lane = job.recording->lane_of_this_thread();
  depth_ = lane.depth();
  lane.begin(SpanKind::Part, job.statement, -1);
  t_recording = {job.recording, &lane};
}

void RecordedPart::end() {
  t_recording.lane->end_to(depth_);
  t_recording = outer_;
}

}  // namespace pto

void pto_record_begin(int32_t statement, int64_t trip) {
  if (pto::RecordLane* const lane = pto::t_recording.lane)
    lane->begin(pto::SpanKind::Statement, statement, trip);
}

void pto_record_size(int32_t symbol, int64_t value) {
  if (pto::RecordLane* const lane = pto::t_recording.lane) lane->note_size(symbol, value);
}

void pto_record_end(void) {
  if (pto::RecordLane* const lane = pto::t_recording.lane) lane->end();
}
