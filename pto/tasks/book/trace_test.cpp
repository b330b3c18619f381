// SPDX-License-Identifier: Apache-2.0
// Tests traces of runs whose shape is known.
#include "pto/tasks/book/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/engine.hpp"
#include "tests/task_tensors.hpp"

namespace pto::trace_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// A kernel that takes as many microseconds as scalar 0 says.
int32_t spin(const pto_args* args) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(args->scalars[0]);
  while (Clock::now() < end) {
  }
  return 0;
}
const TaskKernel kLong{spin, "long"}, kShort{spin, "short \"quoted\""};

TaskId submit(TaskRun& run, const TaskKernel& kernel, uint64_t us, std::vector<TaskId> after,
              int line = 0, int blocks = 1) {
  TaskSpec spec{};
  spec.kernel = &kernel;
  spec.scalars = {&us, 1};
  spec.after = after;
  spec.file = line == 0 ? "" : "orch.cpp";
  spec.line = line;
  spec.blocks = blocks;
  return run.submit(spec);
}

// A run in which 1 comes before 2 and 3, and these before 4; 3 is the long one.
RunTrace diamond(int workers, int level = kEdges) {
  RunTrace trace;
  trace.level = level;
  RunOptions options;
  options.workers = workers;
  options.trace = &trace;
  run_tasks(options, [](TaskRun& run) {
    const TaskId a = submit(run, kShort, 100, {}, 7);
    const TaskId b = submit(run, kShort, 100, {a}, 8);
    const TaskId c = submit(run, kLong, 3000, {a}, 8);
    submit(run, kShort, 100, {b, c});
  });
  return trace;
}

std::vector<std::pair<TaskId, TaskId>> pairs_of(const RunTrace& trace) {
  std::vector<std::pair<TaskId, TaskId>> pairs;
  for (const TraceEdge& edge : trace.edges) pairs.emplace_back(edge.from, edge.to);
  return pairs;
}

TEST(Trace, tells_every_task_edge_kernel_and_site) {
  for (int workers : {1, 2}) {
    const RunTrace trace = diamond(workers);
    ASSERT_EQ(trace.records.size(), 4u);
    EXPECT_THAT(pairs_of(trace), ElementsAre(Pair(1, 2), Pair(1, 3), Pair(2, 4), Pair(3, 4)));
    EXPECT_THAT(trace.kernels, ElementsAre("(none)", kShort.name, "long"));
    EXPECT_THAT(trace.sites, ElementsAre("", "orch.cpp:7", "orch.cpp:8"));
    EXPECT_EQ(trace.dropped, 0);
    std::vector<uint64_t> end(5);
    for (const TraceRecord& r : trace.records) {
      end[r.task] = r.start_ns + r.duration_ns;
      EXPECT_GE(r.duration_ns, r.task == 3 ? 2900000u : 95000u);
      EXPECT_LE(end[r.task], trace.duration_ns + 1000);
    }
    for (const TraceRecord& r : trace.records)
      for (const auto& [from, to, cause] : trace.edges)
        EXPECT_TRUE(to != r.task || r.start_ns + 1000 >= end[from]);
  }
}

TEST(Trace, keeps_more_with_each_level) {
  for (int level = kCounters; level <= kEdges; ++level) {
    const RunTrace trace = diamond(2, level);
    EXPECT_THAT(trace.calls, ElementsAre(0, 3, 1));
    EXPECT_EQ(trace.records.size(), level >= kRecords ? 4u : 0u);
    EXPECT_EQ(trace.submissions.size(), level >= kSubmissions ? 4u : 0u);
    EXPECT_EQ(trace.edges.size(), level >= kEdges ? 4u : 0u);
    const TraceSummary summary = summarize(trace);
    EXPECT_EQ(summary.kernels.size(), 3u);
    EXPECT_EQ(summary.tracing_ns > 0, level >= kRecords);
    EXPECT_EQ(summary.starved_ns > 0, level >= kRecords);
  }
}

// Submits tasks of one worker that touch the same element.
class OneElement {
 public:
  explicit OneElement(TaskRun& run) : run_(run) {
    const MemoryPiece piece{&x_, sizeof x_};
    memory_ = run.adopt({&piece, 1})[0];
  }
  TaskTensor as(Access access) { return {memory_, access, int64_tensor(&x_, kOne, kOne)}; }
  TaskId touch(Access access, std::vector<TaskId> after = {}) {
    const TaskTensor tensor = as(access);
    const uint64_t no_time = 0;
    TaskSpec spec{};
    spec.kernel = &kShort;
    spec.tensors = {&tensor, 1};
    spec.scalars = {&no_time, 1};
    spec.after = after;
    return run_.submit(spec);
  }

 private:
  static constexpr int64_t kOne[] = {1};
  TaskRun& run_;
  Allocation* memory_;
  int64_t x_ = 0;
};

RunTrace trace_alone(const std::function<void(OneElement&, TaskRun&)>& orchestrate) {
  RunTrace trace;
  trace.level = kEdges;
  RunOptions options;
  options.workers = 1;
  options.trace = &trace;
  run_tasks(options, [&](TaskRun& run) {
    OneElement x(run);
    orchestrate(x, run);
  });
  return trace;
}

TEST(Trace, tells_of_edges_from_tasks_that_were_done_when_others_came) {
  const RunTrace trace = trace_alone([](OneElement& x, TaskRun&) {
    x.touch(Access::Write);
    for (int i = 0; i < 3; ++i) x.touch(Access::Read);
    x.touch(Access::Write);
  });
  EXPECT_THAT(pairs_of(trace),
              ElementsAre(Pair(1, 2), Pair(1, 3), Pair(1, 4), Pair(2, 5), Pair(3, 5), Pair(4, 5)));
}

TEST(Trace, counts_no_task_that_runs_where_it_is_submitted_as_a_cost_of_submitting) {
  const RunTrace trace = diamond(1);
  for (const TraceRecord& r : trace.records) {
    const TraceSubmission& own = trace.submissions[r.task - 1];
    EXPECT_GE(own.waited_ns, r.duration_ns);
    EXPECT_LE(own.start_ns, r.start_ns);
    if (r.task < 4) {
      EXPECT_LE(own.start_ns + own.waited_ns + own.cost_ns,
                trace.submissions[r.task].start_ns + 10);
    }
  }
}

// The tasks write, read, overwrite, then read and write x; the third also follows one by name.
TEST(Trace, tells_why_a_task_follows_another_and_for_whom_the_orchestration_waited) {
  const RunTrace trace = trace_alone([](OneElement& x, TaskRun& run) {
    x.touch(Access::Write);
    x.touch(Access::Read);
    x.touch(Access::Write, {1});
    x.touch(Access::Update);
    run.wait_for(x.as(Access::Read));
    x.touch(Access::Reduce);
  });
  std::vector<std::tuple<TaskId, TaskId, EdgeCause>> edges;
  for (const TraceEdge& edge : trace.edges) edges.emplace_back(edge.from, edge.to, edge.cause);
  EXPECT_THAT(edges,
              ElementsAre(std::tuple(1, 2, EdgeCause::Data), std::tuple(1, 3, EdgeCause::After),
                          std::tuple(2, 3, EdgeCause::Storage), std::tuple(3, 4, EdgeCause::Data),
                          std::tuple(4, 5, EdgeCause::Data)));
  ASSERT_EQ(trace.submissions.size(), 5u);
  EXPECT_THAT(trace.submissions[4].awaited, ElementsAre(4));
  EXPECT_THAT(trace.submissions[3].awaited, ElementsAre());
  EXPECT_THAT(trace.turns, ElementsAre(Pair(5, 1)));
  for (size_t i = 0; i < 5; ++i) {
    const TraceSubmission& one = trace.submissions[i];
    EXPECT_EQ(one.task, i + 1);
    EXPECT_GT(one.cost_ns, 0u);
    EXPECT_GE(one.start_ns, i == 0 ? 0 : trace.submissions[i - 1].start_ns);
  }
}

// The diamond with the times that it takes on an idle machine.
RunTrace undisturbed_diamond() {
  RunTrace trace = diamond(1);
  for (TraceRecord& record : trace.records) {
    const bool is_long = record.task == 3;
    record.start_ns = is_long ? 200000 : record.task == 4 ? 3200000 : (record.task - 1) * 100000;
    record.duration_ns = is_long ? 3000000 : 100000;
  }
  sort_trace(trace);
  trace.duration_ns = 3300000;
  return trace;
}

TEST(Trace, finds_the_longest_chain_and_the_busiest_kernel) {
  const TraceSummary summary = summarize(undisturbed_diamond());
  EXPECT_THAT(summary.critical, ElementsAre(1, 3, 4));
  EXPECT_EQ(summary.critical_ns, 3200000u);
  EXPECT_EQ(summary.duration_ns, 3300000u);
  ASSERT_GE(summary.kernels.size(), 2u);
  EXPECT_EQ(summary.kernels[0].kernel, "long");
  EXPECT_EQ(summary.kernels[1].calls, 3);
}

TEST(Trace, counts_what_its_rings_lose_and_the_blocks_of_a_task) {
  RunTrace trace;
  trace.capacity = 4;
  RunOptions options;
  options.workers = 1;
  options.trace = &trace;
  run_tasks(options, [](TaskRun& run) {
    TaskId last = submit(run, kShort, 1, {});
    for (int i = 1; i < 10; ++i) last = submit(run, kShort, 1, {last});
    submit(run, kShort, 1, {last}, 0, 3);
  });
  EXPECT_EQ(trace.records.size(), 4u);
  EXPECT_EQ(trace.dropped, 9);
  EXPECT_EQ(trace.records.back().task, 11u);
}

TEST(Trace, is_written_as_events_with_arrows) {
  std::string path = testing::TempDir() + "pto-trace-XXXXXX";
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  write_trace(diamond(1), path);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const auto count = [&](const std::string& part) {
    size_t n = 0;
    for (size_t at = text.str().find(part); at != std::string::npos;
         at = text.str().find(part, at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(count("\"ph\":\"X\""), 4u);
  EXPECT_EQ(count("\"ph\":\"s\""), 4u);
  EXPECT_EQ(count("\"ph\":\"f\""), 4u);
  EXPECT_EQ(count("short \\\"quoted\\\""), 3u);
  EXPECT_EQ(count("orch.cpp:8"), 2u);
  close(file);
  remove(path.c_str());
  EXPECT_THROW(write_trace(RunTrace(), "/nowhere/at/all.json"), Error);
}

}  // namespace pto::trace_test
