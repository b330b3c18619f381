// SPDX-License-Identifier: Apache-2.0
// Recording for Python: when the statements of one call ran, and its trace as a file.
#include "pto/launch/recording.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "pto/bindings/module.hpp"
#include "pto/bindings/path_text.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/tasks/book/trace_file.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace pto::bindings {
namespace {

// Nanoseconds since the call began. Rounding down keeps the order, so that spans still nest.
uint64_t ns_since(uint64_t begin, uint64_t ticks) {
  return ticks <= begin ? 0 : uint64_t(double(ticks - begin) * ns_of_a_tick());
}

uint64_t begin_of(const Recording& recording) {
  const auto spans =
      recording.lanes().empty() ? std::vector<Span>{} : recording.lanes().front().spans();
  return spans.empty() ? 0 : spans.front().start;
}

nb::list lanes_of(const Recording& recording) {
  const uint64_t begin = begin_of(recording);
  nb::list lanes;
  for (const RecordLane& lane : recording.lanes()) {
    nb::list spans, totals;
    for (const Span& span : lane.spans())
      spans.append(nb::make_tuple(int(span.kind), span.statement, span.trip, int(span.depth),
                                  ns_since(begin, span.start), ns_since(begin, span.end)));
    for (const StatementTotal& total : lane.totals())
      totals.append(
          nb::make_tuple(total.calls, ns_since(0, total.ticks), ns_since(0, total.longest)));
    lanes.append(nb::make_tuple(spans, totals, lane.dropped()));
  }
  return lanes;
}

// `names` and `about` have an entry for each statement; the last one is that of the call. `other`
// are members that the JSON tells beside its events, or "".
void write(const Recording& recording, const PathText& path, const std::string& process,
           const std::vector<std::string>& names, const std::vector<std::string>& about,
           const std::string& other) {
  const Unlocked unlocked;
  const uint64_t begin = begin_of(recording);
  TraceFile file(path.text, process);
  const int lanes = std::max(int(recording.lanes().size()), recording.threads());
  for (int i = 0; i < lanes; ++i)
    file.name_lane(i, "worker " + std::to_string(i) + (i == 0 ? ", the caller" : ""));
  int number = 0;
  int64_t dropped = 0;
  for (const RecordLane& lane : recording.lanes()) {
    dropped += lane.dropped();
    for (const Span& span : lane.spans()) {
      if (span.kind == SpanKind::Size) continue;
      const size_t at = span.statement < 0 ? names.size() - 1 : size_t(span.statement);
      std::string name = names[at], members = about[at];
      if (span.kind == SpanKind::Part) name += ", a part";
      if (span.kind == SpanKind::Job) name += ", side by side";
      if (span.trip >= 0) members += ",\"iteration\":" + std::to_string(span.trip);
      static constexpr const char* kKinds[] = {"call", "statement", "job", "part"};
      members += ",\"is\":\"" + std::string(kKinds[int(span.kind)]) + "\"";
      const uint64_t start = ns_since(begin, span.start);
      file.slice(number, start, ns_since(begin, span.end) - start, name, members);
    }
    ++number;
  }
  file.finish("\"dropped\":" + std::to_string(dropped) + (other.empty() ? "" : "," + other));
}

}  // namespace

void bind_recording(nb::module_& m) {
  nb::class_<Recording>(m, "Recording", "When the statements of one call ran.")
      .def(nb::init<int32_t, size_t>(), "statements"_a, "capacity"_a,
           "`capacity`: spans that a thread keeps.")
      .def("start", &Recording::start, "Records the calls of this thread from now on.")
      .def("stop", &Recording::stop)
      .def_prop_ro("threads", &Recording::threads, "That the call might use.")
      .def("lanes", &lanes_of,
           "Of each thread, the caller's first: spans (kind, statement, trip, depth, start, end), "
           "totals (calls, ns, longest ns) of the statements, and how many spans had no room. "
           "Kinds: 0 call, 1 statement, 2 job, 3 part. Times are ns since the call began.")
      .def("write", &write, "path"_a, "process"_a, "names"_a, "about"_a, "other"_a = "",
           "Writes the file for Perfetto. `names` and `about`, members of a JSON object, have an "
           "entry for each statement and one for the call; `other` are members of otherData.");
}

}  // namespace pto::bindings
