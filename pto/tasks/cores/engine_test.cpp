// SPDX-License-Identifier: Apache-2.0
// Compares runs of tasks with the same tasks one after another.
#include "pto/tasks/cores/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pto/base/error.hpp"
#include "tests/deep.hpp"
#include "tests/task_tensors.hpp"

namespace pto::engine_test {

// A view of int64 elements.
struct View {
  int64_t offset;
  std::vector<int64_t> sizes, strides;

  TaskTensor of(Allocation& allocation, Access access) const {
    auto* const data = reinterpret_cast<int64_t*>(TaskRun::data_of(allocation));
    return {&allocation, access, int64_tensor(data + offset, sizes, strides)};
  }
};

template <class F>
void each(const pto_tensor& t, F f) {
  std::vector<int64_t> at(size_t(t.rank), 0);
  for (int32_t k = 0; k < t.rank; ++k)
    if (t.sizes[k] == 0) return;
  for (;;) {
    int64_t place = 0;
    for (int32_t k = 0; k < t.rank; ++k) place += at[size_t(k)] * t.strides[k];
    f(static_cast<int64_t*>(t.data)[place]);
    int32_t k = t.rank - 1;
    while (k >= 0 && ++at[size_t(k)] == t.sizes[k]) at[size_t(k--)] = 0;
    if (k < 0) return;
  }
}

// Sets the last tensor to a mix of all others, and of its own old values if scalar 1 is set.
int32_t mix(const pto_args* args) {
  uint64_t sum = args->scalars[0];
  for (int32_t i = 0; i + 1 < args->n_tensors; ++i)
    each(args->tensors[i], [&](int64_t& v) { sum = sum * 31 + uint64_t(v); });
  const bool updates = args->scalars[1] == uint64_t(Access::Update);
  const bool reduces = args->scalars[1] == uint64_t(Access::Reduce);
  uint64_t i = 0;
  each(args->tensors[args->n_tensors - 1], [&](int64_t& v) {
    ++i;
    v = int64_t(updates ? uint64_t(v) * 7 + sum + i : reduces ? uint64_t(v) + sum * i : sum + i);
  });
  return 0;
}
const TaskKernel kMix{mix, "mix"};

struct Call {
  std::vector<View> views;
  std::vector<size_t> memory;
  Access access;  // of the last
  uint64_t seed;
};

// Draws a view of an array of 8 x 8: tiles, rows, columns, steps, transposes.
View random_view(std::mt19937& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  if (below(3) == 0) return {below(2) * 32 + below(2) * 4, {4, 4}, {8, 1}};
  const int64_t r = below(8), c = below(8), step = 1 + below(2);
  View view{r * 8 + c, {1 + below(8 - r), 1 + (7 - c) / step * below(2)}, {8, step}};
  if (below(3) == 0)
    std::swap(view.sizes[0], view.sizes[1]), std::swap(view.strides[0], view.strides[1]);
  return view;
}

std::vector<Call> random_calls(std::mt19937& random) {
  std::vector<Call> calls(1 + random() % 60);
  for (Call& call : calls) {
    for (size_t i = 0; i <= random() % 3; ++i) {
      call.views.push_back(random_view(random));
      call.memory.push_back(random() % 3);
    }
    call.access = Access(1 + random() % 3);
    call.seed = random();
  }
  return calls;
}

using Memory = std::vector<std::vector<int64_t>>;
Memory fresh() {
  Memory memory(3, std::vector<int64_t>(64));
  for (auto& array : memory)
    for (size_t i = 0; i < array.size(); ++i) array[i] = int64_t(i * 3 + 1);
  return memory;
}

void submit_all(TaskRun& run, const std::vector<Call>& calls, Memory& memory) {
  std::vector<MemoryPiece> pieces;
  for (auto& array : memory) pieces.push_back({array.data(), 64 * 8});
  const auto allocations = run.adopt(pieces);
  for (const Call& call : calls) {
    std::vector<TaskTensor> tensors;
    for (size_t i = 0; i < call.views.size(); ++i)
      tensors.push_back(call.views[i].of(*allocations[call.memory[i]],
                                         i + 1 < call.views.size() ? Access::Read : call.access));
    const uint64_t scalars[] = {call.seed, uint64_t(call.access)};
    TaskSpec spec{};
    spec.kernel = &kMix;
    spec.tensors = tensors;
    spec.scalars = scalars;
    run.submit(spec);
  }
}

void run_in_order(const std::vector<Call>& calls, Memory& memory) {
  for (const Call& call : calls) {
    std::vector<pto_tensor> tensors;
    for (size_t i = 0; i < call.views.size(); ++i) {
      const View& view = call.views[i];
      tensors.push_back(
          int64_tensor(memory[call.memory[i]].data() + view.offset, view.sizes, view.strides));
    }
    const uint64_t scalars[] = {call.seed, uint64_t(call.access)};
    pto_args args{};
    args.tensors = tensors.data();
    args.n_tensors = int32_t(tensors.size());
    args.scalars = scalars;
    mix(&args);
  }
}

TEST(Engine, computes_what_its_tasks_compute_one_after_another) {
  std::mt19937 random(11);
  const int rounds = rounds_of(5000, 1000000);
  for (int round = 0; round < rounds; ++round) {
    const auto calls = random_calls(random);
    Memory expected = fresh(), memory = fresh();
    run_in_order(calls, expected);
    RunOptions options;
    options.workers = 1 + round % 4;
    options.window = int64_t(2) << (round % 7);
    run_tasks(options, [&](TaskRun& run) { submit_all(run, calls, memory); });
    ASSERT_EQ(memory, expected) << "round " << round;
  }
}

// --- single features -----------------------------------------------------------------------------

int32_t add_one(const pto_args* args) {
  ++*static_cast<int64_t*>(args->tensors[0].data);
  return 0;
}
int32_t fail_here(const pto_args* args) { return args->services->fail(args->services, "no luck"); }
int32_t throw_here(const pto_args*) { throw std::runtime_error("thrown"); }
int32_t throw_nothing(const pto_args*) { throw std::runtime_error(""); }
std::atomic<int> g_blocks{0};
int32_t count_block(const pto_args* args) {
  g_blocks.fetch_add(args->block + 1);
  return args->blocks == 5 ? 0 : 1;
}
const TaskKernel kAddOne{add_one, "add_one"}, kFail{fail_here, "fail_here"},
    kThrow{throw_here, "throw_here"}, kThrowNothing{throw_nothing, "throw_nothing"},
    kCount{count_block, "count_block"};
const View kOne{0, {1}, {1}};

TaskSpec spec_of(const TaskKernel& kernel, std::span<const TaskTensor> tensors) {
  TaskSpec spec{};
  spec.kernel = &kernel;
  spec.tensors = tensors;
  return spec;
}

std::string error_of(const std::function<void(TaskRun&)>& orchestrate) {
  try {
    run_tasks({}, orchestrate);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Engine, runs_a_chain_in_order_through_a_tiny_window) {
  for (int workers : {1, 2, 4}) {
    int64_t x = 0;
    RunOptions options;
    options.workers = workers;
    options.window = 2;
    const RunReport report = run_tasks(options, [&](TaskRun& run) {
      const MemoryPiece piece{&x, 8};
      Allocation& a = *run.adopt({&piece, 1})[0];
      for (int i = 0; i < 1000; ++i) {
        const TaskTensor t = kOne.of(a, Access::Update);
        run.submit(spec_of(kAddOne, {&t, 1}));
      }
    });
    EXPECT_EQ(x, 1000);
    EXPECT_EQ(report.tasks, 1000);
  }
}

TEST(Engine, lets_reducing_tasks_take_turns) {
  for (int workers : {1, 2, 4}) {
    int64_t x = 0;
    RunOptions options;
    options.workers = workers;
    const RunReport report = run_tasks(options, [&](TaskRun& run) {
      const MemoryPiece piece{&x, 8};
      Allocation& a = *run.adopt({&piece, 1})[0];
      for (int i = 0; i < 2000; ++i) {
        const TaskTensor t = kOne.of(a, Access::Reduce);
        run.submit(spec_of(kAddOne, {&t, 1}));
      }
    });
    EXPECT_EQ(x, 2000);
    EXPECT_EQ(report.edges, 0);
  }
}

TEST(Engine, runs_every_block_of_a_task_before_what_follows_it) {
  for (int workers : {1, 2, 3}) {
    g_blocks = 0;
    int64_t x = 0;
    RunOptions options;
    options.workers = workers;
    options.window = 4;
    run_tasks(options, [&](TaskRun& run) {
      const MemoryPiece piece{&x, 8};
      Allocation& a = *run.adopt({&piece, 1})[0];
      for (int i = 0; i < 50; ++i) {
        const TaskTensor t = kOne.of(a, Access::Update);
        TaskSpec spec = spec_of(kCount, {&t, 1});
        spec.blocks = 5;
        run.submit(spec);
        EXPECT_TRUE(run.wait_for(t));
        EXPECT_EQ(g_blocks.load(), (i + 1) * 15);
      }
    });
  }
}

TEST(Engine, skips_a_task_whose_predicate_does_not_hold) {
  int64_t x = 0, y = 0;
  const RunReport report = run_tasks({}, [&](TaskRun& run) {
    const MemoryPiece pieces[] = {{&x, 8}, {&y, 8}};
    const auto memory = run.adopt(pieces);
    for (int i = 0; i < 10; ++i) {
      const TaskTensor tx = kOne.of(*memory[0], Access::Update);
      const TaskTensor ty = kOne.of(*memory[1], Access::Update);
      run.submit(spec_of(kAddOne, {&tx, 1}));
      const Predicate predicate{&x, 0, 64, Compare::Less, 6};
      const TaskTensor seen = kOne.of(*memory[0], Access::Read);
      TaskSpec spec = spec_of(kAddOne, {&ty, 1});
      spec.predicate = &predicate;
      spec.predicate_tensor = &seen;
      run.submit(spec);
    }
  });
  EXPECT_EQ(x, 10);
  EXPECT_EQ(y, 5);
  EXPECT_EQ(report.skipped, 5);
}

int32_t add_one_atomically(const pto_args* args) {
  std::atomic_ref(*static_cast<int64_t*>(args->tensors[0].data)).fetch_add(1);
  return 0;
}

TEST(Engine, asks_once_for_all_blocks_what_the_first_of_them_changes) {
  const TaskKernel kernel{add_one_atomically, "add_one_atomically"};
  for (int workers : {1, 2}) {
    int64_t x = 0;
    RunOptions options;
    options.workers = workers;
    const RunReport report = run_tasks(options, [&](TaskRun& run) {
      const MemoryPiece piece{&x, 8};
      const TaskTensor tensor = kOne.of(*run.adopt({&piece, 1})[0], Access::Update);
      const Predicate predicate{&x, 0, 64, Compare::Less, 1};
      TaskSpec spec = spec_of(kernel, {&tensor, 1});
      spec.blocks = 4;
      spec.predicate = &predicate;
      spec.predicate_tensor = &tensor;
      run.submit(spec);
      run.submit(spec);
    });
    EXPECT_EQ(x, 4) << workers;
    EXPECT_EQ(report.skipped, 1) << workers;
  }
}

TEST(Engine, poisons_what_follows_a_failure_and_runs_the_rest) {
  const std::map<const TaskKernel*, std::string> texts{
      {&kFail, "no luck"}, {&kThrow, "thrown"}, {&kThrowNothing, "it gave no text"}};
  for (const auto& [broken, text] : texts) {
    int64_t x = 0, y = 0;
    const std::string error = error_of([&](TaskRun& run) {
      const MemoryPiece pieces[] = {{&x, 8}, {&y, 8}};
      const auto memory = run.adopt(pieces);
      const TaskTensor tx = kOne.of(*memory[0], Access::Update);
      const TaskTensor ty = kOne.of(*memory[1], Access::Update);
      run.submit(spec_of(kAddOne, {&tx, 1}));
      TaskSpec spec = spec_of(*broken, {&tx, 1});
      spec.file = "orch.cpp";
      spec.line = 12;
      run.submit(spec);
      for (int i = 0; i < 5; ++i) {
        run.submit(spec_of(kAddOne, {&tx, 1}));
        run.submit(spec_of(kAddOne, {&ty, 1}));
      }
      EXPECT_FALSE(run.wait_for(tx));
      run.submit(spec_of(kAddOne, {&tx, 1}));  // after the cause is long done
    });
    EXPECT_EQ(x, 1);
    EXPECT_EQ(y, 5);
    EXPECT_NE(error.find("task 2 (" + broken->name + "), submitted at orch.cpp:12, failed"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find(": " + text + "\n"), std::string::npos) << error;
    EXPECT_NE(error.find("6 tasks follow it"), std::string::npos) << error;
  }
}

TEST(Engine, follows_tasks_by_id_where_no_memory_says_so) {
  static std::atomic<int> order{0};
  static int first, second;
  const TaskKernel one{[](const pto_args*) { return first = ++order, 0; }, "one"};
  const TaskKernel two{[](const pto_args*) { return second = ++order, 0; }, "two"};
  for (int i = 0; i < 100; ++i) {
    run_tasks({}, [&](TaskRun& run) {
      const TaskId id = run.submit(spec_of(one, {}));
      TaskSpec spec = spec_of(two, {});
      spec.after = {&id, 1};
      run.submit(spec);
    });
    ASSERT_LT(first, second);
  }
}

TEST(Engine, frees_memory_of_its_own_when_its_tasks_are_done) {
  const RunReport report = run_tasks({}, [&](TaskRun& run) {
    for (int i = 0; i < 2000; ++i) {
      Allocation& a = run.allocate(1 << 20);
      const TaskTensor t = kOne.of(a, Access::Write);
      run.submit(spec_of(kAddOne, {&t, 1}));
      run.let_go(a);
    }
  });
  EXPECT_EQ(report.tasks, 2000);
}

TEST(Engine, refuses_what_cannot_run_and_stays_usable) {
  int64_t x[4] = {};
  EXPECT_NE(error_of([&](TaskRun& run) {
              const TaskId id = 7;
              TaskSpec spec{};
              spec.after = {&id, 1};
              run.submit(spec);
            }).find("follow task 7, but this run has none yet"),
            std::string::npos);
  EXPECT_NE(error_of([&](TaskRun& run) {
              TaskSpec spec{};
              spec.blocks = 0;
              run.submit(spec);
            }).find("0 blocks"),
            std::string::npos);
  EXPECT_NE(error_of([&](TaskRun& run) {
              const MemoryPiece a{x, 16}, b{x + 1, 16};
              run.adopt({&a, 1});
              run.adopt({&b, 1});
            }).find("overlaps what the run has adopted"),
            std::string::npos);
  EXPECT_NE(error_of([&](TaskRun& run) {
              Allocation& a = run.allocate(8);
              run.let_go(a);
              const TaskTensor t = kOne.of(a, Access::Write);
              run.submit(spec_of(kAddOne, {&t, 1}));
            }).find("let go"),
            std::string::npos);
  EXPECT_NE(error_of([&](TaskRun& run) { run.allocate(int64_t(1) << 62); }).find("bytes"),
            std::string::npos);
  EXPECT_NE(error_of([&](TaskRun& run) { run.stop("enough"); }).find("enough"), std::string::npos);
  EXPECT_THROW(run_tasks({.window = 3}, [](TaskRun&) {}), Error);
  EXPECT_THROW(run_tasks({}, [](TaskRun&) { throw std::logic_error("mine"); }), std::logic_error);
  EXPECT_EQ(error_of([](TaskRun&) {}), "");
}

TEST(Engine, keeps_to_a_deadline) {
  int64_t x = 0;
  RunOptions options;
  options.deadline_s = 1e-9;
  EXPECT_THROW(run_tasks(options,
                         [&](TaskRun& run) {
                           const MemoryPiece piece{&x, 8};
                           const TaskTensor t = kOne.of(*run.adopt({&piece, 1})[0], Access::Update);
                           run.submit(spec_of(kAddOne, {&t, 1}));
                         }),
               Error);
  EXPECT_EQ(x, 0);
}

TEST(Engine, serves_several_threads_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      std::mt19937 random{unsigned(t)};
      for (int round = 0; round < 100; ++round) {
        const auto calls = random_calls(random);
        Memory expected = fresh(), memory = fresh();
        run_in_order(calls, expected);
        run_tasks({}, [&](TaskRun& run) { submit_all(run, calls, memory); });
        EXPECT_EQ(memory, expected);
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace pto::engine_test
