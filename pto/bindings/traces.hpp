// SPDX-License-Identifier: Apache-2.0
// ChipTrace: a trace of a run as Python holds it.
//
// Thread safety: constant once it is made.
#pragma once

#include <memory>
#include <string>

#include "pto/tasks/book/trace.hpp"

namespace pto::bindings {

struct ChipTrace {
  std::shared_ptr<const RunTrace> trace;
  int64_t window;  // of the run
};

// How a run is traced: where it is written, "" for nowhere, and the level, -1 for no trace.
struct TraceRequest {
  std::string path;
  int level;

  RunTrace* begin(RunTrace& trace) const {
    trace.level = level;
    if (level >= kEdges) trace.capacity = size_t{1} << 20;
    return level < 0 ? nullptr : &trace;
  }
  // Also of a run that has failed.
  void end(const RunTrace& trace) const {
    if (level >= 0 && !path.empty()) write_trace(trace, path);
  }
};

}  // namespace pto::bindings
