// SPDX-License-Identifier: Apache-2.0
// ChipTrace: the trace of a run for Python; TraceRequest: what a run traces.
//
//     TraceRequest request{"t.json", kEdges};
//     options.trace = request.begin(trace);       // null for level -1
//     report = request.write_after(trace, [&] { return run_tasks(options, orchestrate); });
//
// Thread safety: constant once made.
#pragma once

#include <memory>
#include <string>

#include "pto/base/error.hpp"
#include "pto/tasks/book/trace.hpp"

namespace pto::bindings {

struct ChipTrace {
  std::shared_ptr<const RunTrace> trace;
  int64_t window;  // of the run
};

// The trace that a run writes: the path, "" for no file, and the level, -1 for no trace.
struct TraceRequest {
  std::string path;
  int level;

  RunTrace* begin(RunTrace& trace) const {
    trace.level = level;
    if (level >= kEdges) trace.capacity = size_t{1} << 20;
    return level < 0 ? nullptr : &trace;
  }
  // Runs the work and writes the trace, also of a failed run. Throws what the work throws, else
  // Error if the trace cannot be written.
  template <class Work>
  auto write_after(const RunTrace& trace, const Work& work) const {
    try {
      auto result = work();
      end(trace);
      return result;
    } catch (...) {
      end_failed(trace);
      throw;
    }
  }
  void end(const RunTrace& trace) const {
    if (level >= 0 && !path.empty()) write_trace(trace, path);
  }
  void end_failed(const RunTrace& trace) const {
    try {
      end(trace);
    } catch (const Error&) {  // the run's own error says more
    }
  }
};

}  // namespace pto::bindings
