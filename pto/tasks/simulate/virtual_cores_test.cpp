// SPDX-License-Identifier: Apache-2.0
// Compares random graphs on virtual cores with the same tasks one after another. A law that fails
// prints its seed, which replays the run exactly.
#include "pto/tasks/simulate/virtual_cores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/tasks/book/trace.hpp"
#include "pto/tasks/cores/engine.hpp"
#include "pto/tasks/simulate/laws_test.hpp"
#include "tests/deep.hpp"

namespace pto::virtual_cores_test {

using testing::HasSubstr;

// --- the law -------------------------------------------------------------------------------------

struct Simulated {
  std::string broken;  // "": nothing is
  RunTrace trace;
  uint64_t end_ns;
  bool operator==(const Simulated& other) const {
    const auto key = [](const TraceRecord& r) {
      return std::tuple(r.task, r.start_ns, r.duration_ns, r.worker);
    };
    return broken == other.broken && end_ns == other.end_ns &&
           std::equal(trace.records.begin(), trace.records.end(), other.trace.records.begin(),
                      other.trace.records.end(),
                      [&](const auto& a, const auto& b) { return key(a) == key(b); });
  }
};

// Submits the tasks; wherever the orchestration waits, it must find what `expected` holds.
void submit_all(TaskRun& run, const std::vector<Work>& works, Cells& cells,
                const std::vector<Cells>& expected, std::string& broken) {
  std::vector<MemoryPiece> pieces;
  for (int64_t a = 0; a < kArrays; ++a) pieces.push_back({cells.data() + a * kCells, kCells * 8});
  const auto memory = run.adopt(pieces);
  for (size_t i = 0; i < works.size(); ++i) {
    const Work& work = works[i];
    std::vector<TaskTensor> tensors;
    for (const Part& part : work.parts)
      tensors.push_back({memory[size_t(part.array)], part.access, tensor_of(cells, part)});
    const uint64_t scalars[] = {reinterpret_cast<uint64_t>(&work), i};
    TaskSpec spec{};
    spec.kernel = work.has_kernel ? &kWork : nullptr;
    spec.tensors = tensors;
    spec.scalars = scalars;
    spec.after = work.after;
    spec.blocks = work.blocks;
    Predicate predicate;
    TaskTensor looked_at;
    if (work.has_predicate) {
      looked_at = {memory[size_t(work.looked_at.array)], Access::Read,
                   tensor_of(cells, work.looked_at)};
      predicate = {looked_at.view.data, 0, 64, Compare::Less, kLimit};
      spec.predicate = &predicate;
      spec.predicate_tensor = &looked_at;
    }
    run.submit(spec);
    if (!work.is_waited_for) continue;
    run.wait_for(tensors.back());
    const Part& part = work.parts.back();
    for (int64_t k = 0; k < part.sizes[0] * part.sizes[1]; ++k) {
      const auto at = size_t(part.array * kCells + (part.row + k / part.sizes[1]) * kSide +
                             part.column + k % part.sizes[1]);
      if (cells[at] != expected[i][at]) broken = "a wait ended early";
    }
  }
}

std::string check_times(const std::vector<Work>& works, const RunTrace& trace) {
  std::vector<std::pair<uint64_t, uint64_t>> spans(works.size(), {0, 0});
  for (const TraceRecord& r : trace.records) {
    auto& [start, end] = spans[r.task - 1];
    start = end == 0 ? r.start_ns : std::min(start, r.start_ns);
    end = std::max(end, r.start_ns + r.duration_ns);
  }
  for (size_t i = 0; i < works.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      if (spans[i].second == 0 || spans[k].second == 0) continue;
      for (const Part& a : works[k].parts)
        for (const Part& b : works[i].parts) {
          if (a.orders(b) && spans[k].second > spans[i].first)
            return "task " + std::to_string(i + 1) + " began before " + std::to_string(k + 1) +
                   " had ended";
          if (a.access == Access::Reduce && b.access == Access::Reduce && a.is_same_box(b) &&
              spans[k].second > spans[i].first && spans[i].second > spans[k].first)
            return "two tasks reduce into one box at once";
        }
    }
  return "";
}

std::string check_error(const std::string& error, const Oracle& oracle, VirtualCores& cores) {
  const auto bad = std::count(oracle.is_bad.begin(), oracle.is_bad.end(), 1);
  if (bad == 0) return error.empty() ? "" : "it failed: " + error;
  if (error.empty()) return "a task failed and the run did not";
  const auto first = std::strtoull(error.c_str() + sizeof("task ") - 1, nullptr, 10);
  if (first == 0 || cores.fate_of(first) == VirtualCores::Fate::Runs)
    return "the error names another task: " + error;
  const std::string others = bad == 1 ? "no other task followed it"
                             : bad == 2
                                 ? "1 task follows it or failed too"
                                 : std::to_string(bad - 1) + " tasks follow it or failed too";
  return error.find(others) == std::string::npos ? "not " + others + ": " + error : "";
}

struct Case {
  int workers;
  int64_t window;
};

Simulated simulate(const std::vector<Work>& works, VirtualCores& cores, Case which) {
  Oracle oracle;
  Simulated result{};
  Watch expected{{}, std::vector<int>(works.size())};
  std::vector<Cells> snapshots;
  g_watch = &expected;
  for (size_t i = 0; i < works.size(); ++i) {
    oracle.step(works, i, cores.fate_of(i + 1) != VirtualCores::Fate::Runs);
    snapshots.push_back(oracle.cells);
  }
  Watch seen{[&](uint64_t ns) { cores.pass(ns); }, std::vector<int>(works.size())};
  g_watch = &seen;
  Cells cells(kArrays * kCells);
  RunOptions options;
  options.workers = which.workers;
  options.window = which.window;
  options.steps = &cores;
  options.trace = &result.trace;
  result.trace.capacity = 1024;
  std::string error;
  try {
    run_tasks(options,
              [&](TaskRun& run) { submit_all(run, works, cells, snapshots, result.broken); });
  } catch (const Error& caught) {
    error = caught.what();
  }
  g_watch = nullptr;
  result.end_ns = cores.now_ns();
  if (error.find("the simulated run of seed") != std::string::npos) result.broken = error;
  if (!result.broken.empty()) return result;
  result.broken = check_error(error, oracle, cores);
  if (result.broken.empty() && seen.calls != expected.calls)
    result.broken = "other tasks ran than do one after another";
  if (result.broken.empty() && cells != oracle.cells)
    result.broken = "memory is not as one task after another leaves it";
  if (result.broken.empty()) result.broken = check_times(works, result.trace);
  return result;
}

VirtualCoresOptions options_of(uint64_t seed) {
  VirtualCoresOptions options;
  options.seed = seed;
  options.steps_max = 2000000;
  options.ready_max = 64 * 5;
  if (seed % 3 == 0) options.fails = 0.05, options.throws = 0.05;
  return options;
}

Case case_of(uint64_t seed) {
  constexpr int kWorkers[] = {2, 3, 4, 4, 8, 16, 64};
  const int workers = seed % 500 == 0 ? 1024 : kWorkers[seed % 7];
  return {workers, int64_t(2) << (seed / 7 % 6)};
}

TEST(VirtualCores, every_order_of_steps_computes_what_one_task_after_another_does) {
  const int rounds = rounds_of(3000, 1000000);
  for (uint64_t seed = 1; seed <= uint64_t(rounds); ++seed) {
    const auto works = random_works(seed / 2);  // two orders of each graph
    VirtualCores cores(options_of(seed));
    ASSERT_EQ(simulate(works, cores, case_of(seed)).broken, "") << "seed " << seed;
  }
}

// Four blocks update a column whose second element the condition reads.
TEST(VirtualCores, a_condition_is_asked_once_for_all_blocks) {
  std::vector<Work> works(2);
  works[0].parts = {{2, 1, 1, {3, 3}, Access::Write}};
  works[1].parts = {{2, 0, 1, {4, 1}, Access::Update}};
  works[0].seed = 1990;  // so that the first block makes it fail
  works[1].seed = 20;
  works[1].blocks = 4;
  works[1].has_predicate = true;
  works[1].looked_at = {2, 1, 1, {1, 1}, Access::Read};
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    VirtualCores cores(options_of(3 * seed + 1));
    ASSERT_EQ(simulate(works, cores, {4, 8}).broken, "") << "seed " << seed;
  }
}

TEST(VirtualCores, a_seed_replays_exactly_and_another_takes_another_order) {
  const auto works = random_works(7);
  const auto of = [&](uint64_t seed) {
    VirtualCores cores(options_of(seed));
    return simulate(works, cores, {8, 16});
  };
  EXPECT_TRUE(of(5) == of(5));
  EXPECT_FALSE(of(5) == of(6));
}

// --- mistakes of a scheduler, made on purpose, are found -----------------------------------------

class ReleasesEarly final : public VirtualCores {
 public:
  using VirtualCores::VirtualCores;
  void at(Step step, Task* task) override {
    VirtualCores::at(step, task);
    if (step == Step::Release && task->id % 4 == 0 && task->pending.load() > 1)
      task->pending.fetch_sub(1);
  }
};
class LosesWakeups final : public VirtualCores {
 public:
  using VirtualCores::VirtualCores;
  void wake(const std::atomic<uint32_t>& events) override {
    if (events.load() % 8 != 0) VirtualCores::wake(events);
  }
};
class ForgetsPoison final : public VirtualCores {
 public:
  using VirtualCores::VirtualCores;
  void at(Step step, Task* task) override {
    VirtualCores::at(step, task);
    if (step == Step::Release && task->id % 4 == 0) task->cause.store(-1);
  }
};

// Returns the first seed whose run breaks the law.
template <class Cores>
std::pair<uint64_t, Simulated> first_broken() {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Cores cores(options_of(seed));
    Simulated found = simulate(random_works(seed / 2), cores, case_of(seed));
    if (!found.broken.empty()) return {seed, found};
  }
  return {0, {}};
}

template <class Cores>
void expect_found(const std::string& text) {
  const auto [seed, found] = first_broken<Cores>();
  ASSERT_GT(seed, 0u) << "not found: " << text;
  EXPECT_THAT(found.broken, HasSubstr(text)) << "seed " << seed;
  Cores again(options_of(seed));
  EXPECT_TRUE(simulate(random_works(seed / 2), again, case_of(seed)) == found) << "seed " << seed;
}

TEST(VirtualCores, finds_a_task_that_begins_before_those_it_follows) {
  expect_found<ReleasesEarly>("");
}
TEST(VirtualCores, finds_a_wakeup_that_is_lost_and_names_the_seed) {
  expect_found<LosesWakeups>("the simulated run of seed ");
  expect_found<LosesWakeups>("stands still");
}
TEST(VirtualCores, finds_a_task_that_runs_although_it_follows_a_failed_one) {
  expect_found<ForgetsPoison>("");
}

TEST(VirtualCores, ends_a_run_that_takes_too_many_steps) {
  VirtualCoresOptions options = options_of(1);
  options.steps_max = 50;
  VirtualCores cores(options);
  EXPECT_THAT(simulate(random_works(7), cores, {4, 16}).broken,
              HasSubstr("has not ended after 50 steps"));
}

// --- virtual time --------------------------------------------------------------------------------

// Returns the end of a run of `tasks` tasks of 1 us, in a chain or independent.
uint64_t end_of(int workers, int tasks, bool is_chain) {
  VirtualCoresOptions options;
  options.is_shaken = options.runs_kernels = false;
  options.ready_max = 4096;
  options.duration = [](const Task&, int32_t) { return uint64_t(1000); };
  VirtualCores cores(options);
  RunOptions run_options;
  run_options.workers = workers;
  run_options.steps = &cores;
  run_tasks(run_options, [&](TaskRun& run) {
    TaskId last = 0;
    for (int i = 0; i < tasks; ++i) {
      TaskSpec spec{};
      spec.kernel = &kWork;
      if (is_chain && last != 0) spec.after = {&last, 1};
      last = run.submit(spec);
    }
  });
  return cores.now_ns();
}

TEST(VirtualCores, take_the_time_of_the_tasks_where_steps_cost_nothing) {
  EXPECT_EQ(end_of(1, 96, false), 96000u);
  EXPECT_EQ(end_of(8, 96, true), 96000u);
  EXPECT_EQ(end_of(8, 96, false), 12000u);
  EXPECT_EQ(end_of(256, 256, false), 1000u);
}

TEST(VirtualCores, end_tasks_at_a_deadline_in_their_own_time) {
  VirtualCoresOptions options;
  options.is_shaken = options.runs_kernels = false;
  options.ready_max = 4096;
  options.duration = [](const Task&, int32_t) { return uint64_t(1000); };
  VirtualCores cores(options);
  RunOptions run_options;
  run_options.workers = 1;
  run_options.steps = &cores;
  run_options.deadline_s = 4.5e-6;
  EXPECT_THROW(run_tasks(run_options,
                         [&](TaskRun& run) {
                           TaskSpec spec{};
                           spec.kernel = &kWork;
                           for (int i = 0; i < 96; ++i) run.submit(spec);
                         }),
               Error);
  EXPECT_EQ(cores.tasks_called(), 5);
}

}  // namespace pto::virtual_cores_test
