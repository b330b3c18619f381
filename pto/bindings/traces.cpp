// SPDX-License-Identifier: Apache-2.0
// Traces for Python: summaries, simulated times, advice.
#include "pto/bindings/traces.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "pto/bindings/module.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/tasks/book/advice.hpp"
#include "pto/tasks/simulate/simulate.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

nb::dict summary(const ChipTrace& self) {
  TraceSummary summary;
  {
    const Unlocked unlocked;
    summary = summarize(*self.trace);
  }
  nb::dict result;
  result["level"] = self.trace->level;
  result["workers"] = self.trace->workers;
  result["dropped"] = self.trace->dropped;
  result["is_replay"] = self.trace->is_replay;
  result["is_simulated"] =
      self.trace->level >= kEdges && self.trace->dropped == 0 && !self.trace->is_bound;
  result["duration_ns"] = summary.duration_ns;
  result["busy_ns"] = summary.busy_ns;
  result["critical_ns"] = summary.critical_ns;
  result["critical"] = summary.critical;
  result["idle_while_ready_ns"] = summary.idle_while_ready_ns;
  result["starved_ns"] = summary.starved_ns;
  result["waited_ns"] = summary.waited_ns;
  result["tracing_ns"] = summary.tracing_ns;
  nb::list kernels;
  for (const KernelTotal& total : summary.kernels)
    if (total.calls > 0)
      kernels.append(nb::make_tuple(total.kernel, total.calls, total.busy_ns, total.longest_ns));
  result["kernels"] = kernels;
  return result;
}

RecordedRun recorded(const ChipTrace& self) {
  RecordedRun run = record_of(*self.trace);
  run.window = self.window;
  return run;
}

nb::list simulated(const ChipTrace& self, const std::vector<int>& cores) {
  std::vector<SimulatedTime> times;
  {
    const Unlocked unlocked;
    const RecordedRun run = recorded(self);
    for (int count : cores) times.push_back(simulate(run, {count, nullptr}));
  }
  nb::list result;
  for (const SimulatedTime& time : times)
    result.append(nb::make_tuple(time.duration_ns, time.busy_ns, time.critical_ns));
  return result;
}

nb::tuple advice(const ChipTrace& self) {
  Advice advice;
  {
    const Unlocked unlocked;
    advice = advise(recorded(self));
  }
  nb::list changes;
  for (const Change& change : advice.changes)
    changes.append(nb::make_tuple(name(change.kind), change.what, change.duration_ns));
  return nb::make_tuple(advice.duration_ns, changes);
}

}  // namespace

void bind_traces(nb::module_& m) {
  nb::class_<ChipTrace>(m, "ChipTrace", "The trace of one run.")
      .def_prop_ro("level", [](const ChipTrace& self) { return self.trace->level; })
      .def_prop_ro("dropped", [](const ChipTrace& self) { return self.trace->dropped; })
      .def("summary", &summary, "What took the time, in nanoseconds.")
      .def("simulate", &simulated, "cores"_a,
           "(duration, busy, critical path) in nanoseconds on each of these numbers of cores. The "
           "trace is of level 3.")
      .def("advice", &advice,
           "The simulated duration, and (kind, text, duration with it) of each change that makes "
           "it shorter, the best first. The trace is of level 3.");
}

}  // namespace pto::bindings
