// SPDX-License-Identifier: Apache-2.0
// Compares captured graphs with runs of the same orchestration.
#include "pto/tasks/cores/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <random>
#include <vector>

#include "pto/base/error.hpp"
#include "tests/deep.hpp"
#include "tests/task_tensors.hpp"

namespace pto::graph_test {

using testing::ElementsAre;
using testing::HasSubstr;

// Sets the last tensor to a mix of itself, the other tensors and scalar 0.
int32_t mix(const pto_args* args) {
  uint64_t sum = args->scalars[0];
  for (int32_t i = 0; i < args->n_tensors; ++i) {
    const pto_tensor& t = args->tensors[i];
    for (int64_t r = 0; r < t.sizes[0]; ++r)
      for (int64_t c = 0; c < t.sizes[1]; ++c) {
        int64_t& v = static_cast<int64_t*>(t.data)[r * t.strides[0] + c * t.strides[1]];
        sum = sum * 31 + uint64_t(v);
        if (i == args->n_tensors - 1) v = int64_t(sum);
      }
  }
  return 0;
}
int32_t fail_here(const pto_args* args) { return args->services->fail(args->services, "no luck"); }
// Leaves a text and ends well all the same.
int32_t text_alone(const pto_args* args) { return fail_here(args), 0; }
int32_t five(const pto_args*) { return 5; }
int32_t put_block(const pto_args* args) {
  static_cast<int64_t*>(args->tensors[0].data)[args->block] = args->blocks * 10 + args->block;
  return 0;
}

// Copies the scalars out as they came.
int32_t show(const pto_args* args) {
  for (int32_t i = 0; i < args->n_scalars; ++i)
    static_cast<int64_t*>(args->tensors[0].data)[i] = int64_t(args->scalars[i]);
  return 0;
}

std::function<void(Orchestration&)> g_body;
int32_t orchestrate(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  g_body(o);
  return 0;
}
const OrchestrationProgram kProgram{orchestrate,
                                    {{"mix", {mix, "mix"}},
                                     {"fail", {fail_here, "fail"}},
                                     {"text", {text_alone, "text"}},
                                     {"five", {five, "five"}},
                                     {"put", {put_block, "put"}},
                                     {"show", {show, "show"}}}};

constexpr int64_t kSizes[] = {8, 8}, kStrides[] = {8, 1};
struct Memory {
  std::vector<int64_t> values = std::vector<int64_t>(3 * 64);

  Memory() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = int64_t(i * 7 + 1);
  }
  // Returns two separate arrays, and one that overlaps the second by half.
  std::vector<pto_tensor> tensors() {
    std::vector<pto_tensor> all;
    for (int64_t offset : {0, 64, 96})
      all.push_back(int64_tensor(values.data() + offset, kSizes, kStrides));
    return all;
  }
};

// Submits up to 60 tasks on parts of the arguments and on tensors of the run.
void submit_random(Orchestration& o, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  std::vector<View> views = {o.inout(0), o.inout(1), o.inout(2)};
  const View own = o.tensor({8, 8}, element::i64);
  o.submit("mix", {o.in(views[0]), o.inout(views[1]), o.scalar(1)});
  // Writes every element before any task reads it.
  for (int64_t r = 0; r < 8; ++r) {
    TaskOptions eight;
    eight.blocks = 8;
    o.submit("put", {o.out(own.slice(0, r, r + 1))}, eight);
  }
  views.push_back(own);
  const auto part = [&](const View& v) {
    const int64_t r = below(8), c = below(8);
    const View some = v.slice(0, r, r + 1 + below(8 - r)).slice(1, c, c + 1 + below(8 - c));
    return below(3) == 0 ? some.transpose(0, 1) : some;
  };
  uint64_t last = 0;
  for (int64_t i = below(60); i > 0; --i) {
    const View flag = views[size_t(below(4))].slice(0, 3, 4).slice(1, 3, 4);
    TaskOptions options;
    if (below(4) == 0 && last != 0) options.after = {last};
    if (below(5) == 0) {
      options.condition = &flag;
      options.compare = PTO_IF_GT;
    }
    last = o.submit(
        "mix",
        {o.in(part(views[size_t(below(4))])), o.inout(part(views[size_t(below(4))])), o.scalar(i)},
        options);
  }
}

TEST(TaskGraph, replays_what_its_orchestration_runs) {
  const int rounds = rounds_of(1000, 100000);
  for (int round = 0; round < rounds; ++round) {
    g_body = [round](Orchestration& o) { submit_random(o, unsigned(round)); };
    RunOptions options;
    options.workers = 1;
    Memory expected, captured_on, other;
    run_orchestration(kProgram, expected.tensors(), {}, options);
    TaskGraph graph(kProgram, captured_on.tensors(), {});
    ASSERT_EQ(captured_on.values, Memory().values);  // nothing has run
    options.workers = 1 + round % 3;
    for (Memory* memory : {&other, &captured_on}) {
      ASSERT_TRUE(graph.fits(memory->tensors(), {}));
      graph.replay(memory->tensors(), options);
      ASSERT_EQ(memory->values, expected.values) << "round " << round;
    }
  }
}

TEST(TaskGraph, fits_only_arguments_like_those_of_its_capture) {
  g_body = [](Orchestration& o) { o.submit("mix", {o.inout(o.inout(0)), o.scalar(o.integer(0))}); };
  Memory memory;
  const uint64_t one[] = {1}, two[] = {2};
  const TaskGraph graph(kProgram, memory.tensors(), one);
  EXPECT_TRUE(graph.fits(memory.tensors(), one));
  EXPECT_FALSE(graph.fits(memory.tensors(), two));
  EXPECT_FALSE(graph.fits(memory.tensors(), {}));
  auto apart = memory.tensors();
  apart[2].data = memory.values.data() + 128;  // overlaps nothing
  EXPECT_FALSE(graph.fits(apart, one));
  auto smaller = memory.tensors();
  const int64_t sizes[] = {4, 8};
  smaller[0].sizes = sizes;
  EXPECT_FALSE(graph.fits(smaller, one));
  auto narrower = memory.tensors();
  narrower[0].type_bits = 32;
  EXPECT_FALSE(graph.fits(narrower, one));
}

// Scalars 0 to 2 are whole, 3 to 5 real.
template <class T>
Symbol<T> random_symbol(Orchestration& o, std::mt19937& random, int depth) {
  constexpr bool kIsReal = std::is_same_v<T, double>;
  if (depth == 0 || random() % 4 == 0) {
    if (random() % 3 == 0) return Symbol<T>(int(random() % 9) - 4);
    if constexpr (kIsReal)
      if (random() % 3 == 0) return random_symbol<int64_t>(o, random, depth);
    return o.symbol<T>(int(random() % 3) + 3 * kIsReal);
  }
  const auto a = random_symbol<T>(o, random, depth - 1);
  const auto b = random_symbol<T>(o, random, depth - 1);
  switch (random() % 7) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / max(b, 1);
    case 4:
      return a % max(b, 1);
    case 5:
      return min(a, b);
    default:
      return max(a, b);
  }
}

TEST(TaskGraph, replays_with_other_scalars_what_a_fresh_run_computes_of_them) {
  const int rounds = rounds_of(500, 50000);
  int replays = 0;
  for (int round = 0; round < rounds; ++round) {
    g_body = [round](Orchestration& o) {
      std::mt19937 random{unsigned(round)};
      for (int64_t row = 0; row < 8; ++row) {
        std::vector<TaskArgument> args{o.inout(o.inout(0).slice(0, row, row + 1)), o.scalar(row)};
        for (int i = 0; i < 3; ++i) {
          args.push_back(o.scalar(random_symbol<int64_t>(o, random, 4)));
          args.push_back(o.scalar(random_symbol<double>(o, random, 4)));
        }
        o.submit("show", args);
      }
    };
    std::mt19937 random{unsigned(round) + 1000000};
    std::vector<uint64_t> scalars(6);
    const auto change = [&] {
      for (size_t i = 0; i < 3; ++i) {
        scalars[i] = uint64_t(int64_t(random() % 200) - 100);
        scalars[i + 3] = std::bit_cast<uint64_t>(double(random() % 200) / 4 - 25);
      }
    };
    change();
    Memory captured_on;
    TaskGraph graph(kProgram, captured_on.tensors(), scalars);
    RunOptions options;
    options.workers = 1 + round % 2;
    for (int times = 0; times < 3; ++times) {
      Memory replayed, expected;
      run_orchestration(kProgram, expected.tensors(), scalars, options);
      if (graph.fits(replayed.tensors(), scalars)) {  // else one of them is in no expression
        graph.replay(replayed.tensors(), options, scalars);
        ++replays;
        ASSERT_EQ(replayed.values, expected.values) << "round " << round;
      } else {
        ASSERT_GT(times, 0);
      }
      change();
    }
  }
  EXPECT_GT(replays, rounds * 2);
}

TEST(TaskGraph, keeps_to_scalars_that_were_read_as_numbers) {
  g_body = [](Orchestration& o) {
    const auto n = o.symbol(0), m = o.symbol(1);
    o.integer(1);
    o.submit("show", {o.inout(o.inout(0)), o.scalar(n * 2 + 1), o.scalar(m / n)});
  };
  Memory memory;
  const auto replay = [&](TaskGraph& graph, std::initializer_list<uint64_t> scalars) {
    graph.replay(memory.tensors(), {}, std::vector(scalars));
    return std::pair{memory.values[0], memory.values[1]};
  };
  const uint64_t captured[] = {4, 40}, of_symbol[] = {5, 40}, of_number[] = {4, 41},
                 both[] = {4, 40, 1};
  TaskGraph graph(kProgram, memory.tensors(), captured);
  EXPECT_TRUE(graph.fits(memory.tensors(), of_symbol));
  EXPECT_FALSE(graph.fits(memory.tensors(), of_number));
  EXPECT_FALSE(graph.fits(memory.tensors(), both));
  EXPECT_EQ(replay(graph, {4, 40}), std::pair(int64_t(9), int64_t(10)));
  EXPECT_EQ(replay(graph, {5, 40}), std::pair(int64_t(11), int64_t(8)));
  EXPECT_THROW(replay(graph, {0, 40}), Error);
  EXPECT_EQ(replay(graph, {5, 40}), std::pair(int64_t(11), int64_t(8)));
  EXPECT_EQ(replay(graph, {4, 40}), std::pair(int64_t(9), int64_t(10)));
}

TEST(TaskGraph, poisons_what_follows_a_failure_and_can_be_replayed_again) {
  g_body = [](Orchestration& o) {
    const View x = o.inout(0), y = o.inout(1);
    o.submit("fail", {o.inout(x)});
    for (int i = 0; i < 4; ++i) o.submit("mix", {o.inout(x), o.scalar(1)});
    o.submit("mix", {o.inout(y), o.scalar(1)});
  };
  for (int workers : {1, 2}) {
    Memory memory;
    TaskGraph graph(kProgram, memory.tensors(), {});
    RunOptions options;
    options.workers = workers;
    for (int times = 0; times < 3; ++times) {
      const auto x = memory.values[0], y = memory.values[64];
      try {
        graph.replay(memory.tensors(), options);
        FAIL();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("task 1 (fail), submitted at"));
        EXPECT_THAT(error.what(), HasSubstr("no luck"));
        EXPECT_THAT(error.what(), HasSubstr("4 tasks follow it"));
      }
      EXPECT_EQ(memory.values[0], x);
      EXPECT_NE(memory.values[64], y);
    }
  }
}

TEST(TaskGraph, tells_a_failure_without_the_text_of_an_earlier_task) {
  g_body = [](Orchestration& o) {
    o.submit("text", {});
    o.submit("five", {});
  };
  RunOptions options;
  options.workers = 1;
  TaskGraph graph(kProgram, {}, {});
  const std::function<void()> runs[] = {[&] { run_orchestration(kProgram, {}, {}, options); },
                                        [&] { graph.replay({}, options); }};
  for (const auto& run : runs) {
    try {
      run();
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("task 2 (five)"));
      EXPECT_THAT(error.what(), HasSubstr("the kernel returned 5"));
    }
  }
}

TEST(TaskGraph, traces_its_replays_with_the_edges_of_its_capture) {
  g_body = [](Orchestration& o) {
    const View x = o.inout(0), y = o.inout(1);
    TaskOptions eight;
    eight.blocks = 8;
    o.submit("put", {o.out(x.slice(0, 0, 1))}, eight);
    o.submit("mix", {o.in(x), o.inout(y), o.scalar(1)});
    o.submit("mix", {o.inout(x), o.scalar(1)});
  };
  for (int workers : {1, 2}) {
    Memory memory;
    TaskGraph graph(kProgram, memory.tensors(), {});
    RunTrace trace;
    trace.level = kEdges;
    RunOptions options;
    options.workers = workers;
    options.trace = &trace;
    for (int times = 0; times < 2; ++times) graph.replay(memory.tensors(), options);
    ASSERT_EQ(trace.records.size(), 3u);  // of the last replay
    EXPECT_TRUE(trace.is_replay);
    EXPECT_EQ(trace.workers, workers);
    EXPECT_THAT(trace.kernels, ElementsAre("(none)", "put", "mix"));
    EXPECT_THAT(trace.calls, ElementsAre(0, 1, 2));
    EXPECT_EQ(trace.sites.size(), 4u);
    ASSERT_EQ(trace.edges.size(), 3u);  // 1 to 2, 1 to 3, 2 to 3
    for (size_t i = 1; i < 3; ++i)
      EXPECT_GE(trace.records[i].start_ns + 100,
                trace.records[i - 1].start_ns + trace.records[i - 1].duration_ns);
    EXPECT_LE(trace.records[2].start_ns + trace.records[2].duration_ns, trace.duration_ns + 100);
    EXPECT_EQ(summarize(trace).critical.size(), 3u);
    EXPECT_TRUE(trace.memory.empty());
  }
}

TEST(TaskGraph, holds_its_memory_in_traces_of_its_replays) {
  g_body = [](Orchestration& o) {
    const View x = o.inout(0);
    o.tensor({3}, element::i64);  // no task uses it
    const View y = o.tensor({5}, element::i64);
    o.submit("put", {o.out(x.slice(0, 0, 1))});
    o.submit("put", {o.out(y.slice(0, 0, 1))});
  };
  Memory memory;
  TaskGraph graph(kProgram, memory.tensors(), {});
  RunTrace trace;
  RunOptions options;
  options.workers = 2;
  options.trace = &trace;
  graph.replay(memory.tensors(), options);
  ASSERT_EQ(trace.memory.size(), 2u);
  EXPECT_EQ(trace.memory[0].bytes, 24);
  EXPECT_EQ(trace.memory[0].task, 0u);
  EXPECT_EQ(trace.memory[1].bytes, 40);
  EXPECT_EQ(trace.memory[1].task, 2u);
  EXPECT_THAT(trace.sites[trace.memory[1].site], HasSubstr("graph_test.cpp:"));
  for (const MemoryRecord& one : trace.memory) {
    EXPECT_EQ(one.start_ns, 0u);
    EXPECT_EQ(one.end_ns, MemoryRecord::kHeld);
  }
}

TEST(TaskGraph, refuses_to_capture_what_waits) {
  g_body = [](Orchestration& o) { o.wait(o.inout(0)); };
  Memory memory;
  try {
    TaskGraph graph(kProgram, memory.tensors(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("waits for a tensor while it is captured"));
  }
}

}  // namespace pto::graph_test
