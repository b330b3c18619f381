// SPDX-License-Identifier: Apache-2.0
// Traces of runs whose shape is known.
#include "pto/runtime/tasks/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/runtime/tasks/engine.hpp"

namespace pto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Takes scalar 0 microseconds.
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

// 1 before 2 and 3, these before 4; 3 is the long one.
RunTrace diamond(int workers) {
  RunTrace trace;
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

TEST(Trace, tells_every_task_edge_kernel_and_site) {
  for (int workers : {1, 2}) {
    const RunTrace trace = diamond(workers);
    ASSERT_EQ(trace.records.size(), 4u);
    EXPECT_THAT(trace.edges, ElementsAre(Pair(1, 2), Pair(1, 3), Pair(2, 4), Pair(3, 4)));
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
      for (const auto& [from, to] : trace.edges)
        EXPECT_TRUE(to != r.task || r.start_ns + 1000 >= end[from]);
  }
}

TEST(Trace, finds_the_longest_chain_and_the_busiest_kernel) {
  const TraceSummary summary = summarize(diamond(1));
  EXPECT_THAT(summary.critical, ElementsAre(1, 3, 4));
  EXPECT_GE(summary.critical_ns, 3100000u);
  EXPECT_LE(summary.critical_ns, summary.duration_ns);
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

}  // namespace
}  // namespace pto
