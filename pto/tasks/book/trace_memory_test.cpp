// SPDX-License-Identifier: Apache-2.0
// Tests the records of memory in traces of runs whose allocations are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/cores/engine.hpp"
#include "tests/task_tensors.hpp"

namespace pto::trace_memory_test {

using testing::ElementsAre;

const TaskKernel kNothing{[](const pto_args*) -> int32_t { return 0; }, "nothing"};
constexpr int64_t kOne[] = {1};

// Submits a task that reads and writes the first number of each allocation.
TaskId touch(TaskRun& run, const std::vector<Allocation*>& memory, int line = 0) {
  std::vector<TaskTensor> tensors;
  for (Allocation* one : memory)
    tensors.push_back(
        {one, Access::Update,
         int64_tensor(reinterpret_cast<int64_t*>(TaskRun::data_of(*one)), kOne, kOne)});
  TaskSpec spec{};
  spec.kernel = &kNothing;
  spec.tensors = tensors;
  spec.file = line == 0 ? "" : "orch.cpp";
  spec.line = line;
  return run.submit(spec);
}

RunTrace traced(int workers, const std::function<void(TaskRun&)>& orchestrate, int level = kRecords,
                size_t capacity = 1 << 16) {
  RunTrace trace;
  trace.level = level;
  trace.capacity = capacity;
  RunOptions options;
  options.workers = workers;
  options.trace = &trace;
  run_tasks(options, orchestrate);
  return trace;
}

// Bytes that are held after each change.
std::vector<int64_t> curve(const RunTrace& trace) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  for (const MemoryRecord& one : trace.memory) {
    changes.emplace_back(one.start_ns, one.bytes);
    if (one.end_ns != MemoryRecord::kHeld) changes.emplace_back(one.end_ns, -one.bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<int64_t> held;
  for (const auto& [at, bytes] : changes) held.push_back((held.empty() ? 0 : held.back()) + bytes);
  return held;
}

// Two tensors live through a chain of tasks, a third has none, and the fourth is not let go of.
void chain(TaskRun& run) {
  int64_t mine = 0;
  const MemoryPiece piece{&mine, sizeof mine};
  Allocation* const given = run.adopt({&piece, 1})[0];
  Allocation& a = run.allocate(1000);
  touch(run, {given, &a}, 7);
  Allocation& b = run.allocate(500);
  touch(run, {&a, &b}, 8);
  run.let_go(a);
  run.let_go(run.allocate(70));
  Allocation& kept = run.allocate(16);
  touch(run, {&b, &kept, given}, 9);
  run.let_go(b);
}

TEST(TraceOfMemory, has_the_exact_curve_of_a_known_graph) {
  const RunTrace trace = traced(1, chain);
  EXPECT_THAT(curve(trace), ElementsAre(1000, 1500, 500, 570, 500, 516, 16));
  ASSERT_EQ(trace.memory.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(trace.memory[i].number, i + 1);
  EXPECT_EQ(trace.memory_dropped, 0);
}

TEST(TraceOfMemory, names_the_first_task_of_an_allocation_and_its_line) {
  for (int workers : {1, 2, 4}) {
    const RunTrace trace = traced(workers, chain);
    const auto site = [&](size_t i) { return trace.sites[trace.memory[i].site]; };
    ASSERT_EQ(trace.memory.size(), 4u);
    EXPECT_EQ(trace.memory[0].task, 1u);
    EXPECT_EQ(site(0), "orch.cpp:7");
    EXPECT_EQ(trace.memory[1].task, 2u);
    EXPECT_EQ(site(1), "orch.cpp:8");
    EXPECT_EQ(trace.memory[2].task, 0u);  // no task used it
    EXPECT_EQ(site(2), "");
    EXPECT_EQ(trace.memory[3].task, 3u);
    EXPECT_EQ(trace.memory[3].end_ns, MemoryRecord::kHeld);
  }
}

// The law of all graphs: memory is there from before its first task until after its last, and what
// remains at the end is what the orchestration kept.
TEST(TraceOfMemory, holds_memory_as_long_as_its_tasks_on_any_number_of_workers) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    std::map<size_t, std::pair<TaskId, TaskId>> users;  // by allocation: its first and last task
    int64_t kept = 0;
    const RunTrace trace = traced(1 + int(seed % 4), [&](TaskRun& run) {
      std::vector<std::pair<size_t, Allocation*>> live;
      size_t made = 0;
      for (int step = 0; step < 200; ++step) {
        if (live.empty() || random() % 3 == 0)
          live.emplace_back(++made, &run.allocate(8 + random() % 100));
        const auto [number, memory] = live[random() % live.size()];
        const TaskId task = touch(run, {memory});
        users.try_emplace(number, task, task).first->second.second = task;
        if (random() % 4 > 0) continue;
        const size_t gone = random() % live.size();
        run.let_go(*live[gone].second);
        live.erase(live.begin() + std::ptrdiff_t(gone));
      }
      for (const auto& [number, memory] : live) kept += TaskRun::bytes_of(*memory);
    });
    std::map<TaskId, std::pair<uint64_t, uint64_t>> times;
    for (const TraceRecord& one : trace.records)
      times[one.task] = {one.start_ns, one.start_ns + one.duration_ns};
    for (const MemoryRecord& one : trace.memory) {
      const auto found = users.find(one.number);
      ASSERT_EQ(one.task, found == users.end() ? 0 : found->second.first) << seed;
      if (found == users.end()) continue;
      EXPECT_LE(one.start_ns, times[found->second.first].first) << seed;
      EXPECT_GE(one.end_ns, times[found->second.second].second - 1) << seed;
    }
    const std::vector<int64_t> held = curve(trace);
    EXPECT_EQ(held.back(), kept) << seed;
    EXPECT_GE(*std::min_element(held.begin(), held.end()), 0) << seed;
  }
}

TEST(TraceOfMemory, counts_what_its_rings_lose_and_keeps_what_is_held) {
  const RunTrace trace = traced(
      1,
      [](TaskRun& run) {
        run.allocate(3);
        for (int i = 0; i < 10; ++i) run.let_go(run.allocate(8));
      },
      kRecords, 4);
  EXPECT_EQ(trace.memory_dropped, 6);
  EXPECT_EQ(trace.dropped, 0);
  std::vector<uint64_t> numbers;
  for (const MemoryRecord& one : trace.memory) numbers.push_back(one.number);
  EXPECT_THAT(numbers, ElementsAre(1, 8, 9, 10, 11));
}

TEST(TraceOfMemory, is_empty_below_the_level_of_records) {
  EXPECT_TRUE(traced(2, chain, kCounters).memory.empty());
}

}  // namespace pto::trace_memory_test
