// SPDX-License-Identifier: Apache-2.0
// Tests programs with one mistake each, and programs without any.
#include "pto/tasks/cores/checker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "pto/base/error.hpp"
#include "tests/deep.hpp"

namespace pto::checker_test {

using testing::HasSubstr;

// Adds scalar 0 to the elements of the last tensor.
int32_t add(const pto_args* args) {
  const pto_tensor& t = args->tensors[args->n_tensors - 1];
  for (int64_t i = 0; i < t.sizes[0]; ++i)
    static_cast<int64_t*>(t.data)[i * t.strides[0]] += int64_t(args->scalars[0]) + 1;
  return 0;
}
// Writes at the offset in scalar 0, counted from the first tensor's first element.
int32_t poke(const pto_args* args) {
  static_cast<int64_t*>(args->tensors[0].data)[int64_t(args->scalars[0])] += 7;
  return 0;
}
int32_t fail_here(const pto_args* args) { return args->services->fail(args->services, "no luck"); }

std::function<void(Orchestration&)> g_body;
int32_t orchestrate(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  g_body(o);
  return 0;
}
const OrchestrationProgram kProgram{
    orchestrate, {{"add", {add, "add"}}, {"poke", {poke, "poke"}}, {"fail", {fail_here, "fail"}}}};

// Checks an orchestration of two arguments of 16 elements.
CheckReport check(std::function<void(Orchestration&)> body) {
  g_body = std::move(body);
  std::vector<int64_t> x(16), y(16);
  const int64_t sizes[] = {16}, strides[] = {1};
  const pto_tensor tensors[] = {{x.data(), sizes, strides, 1, 0, 64, 1, 0, 128},
                                {y.data(), sizes, strides, 1, 0, 64, 1, 0, 128}};
  return check_orchestration(kProgram, tensors, {});
}

TaskOptions manual(std::vector<uint64_t> after = {}) {
  TaskOptions options;
  options.after = std::move(after);
  options.manual = true;
  return options;
}
TaskOptions following(std::vector<uint64_t> after) {
  TaskOptions options;
  options.after = std::move(after);
  return options;
}

void expect_clean(const CheckReport& report) {
  EXPECT_TRUE(report.races.empty());
  EXPECT_TRUE(report.surplus.empty());
  EXPECT_TRUE(report.writes.empty());
}

TEST(Checker, finds_nothing_where_all_is_inferred) {
  const CheckReport report = check([](Orchestration& o) {
    const View x = o.inout(0), y = o.inout(1), t = o.tensor({16}, x.dtype());
    for (int i = 0; i < 4; ++i) {
      o.submit("add", {o.inout(x.slice(0, 4 * i, 4 * i + 4)), o.scalar(i)});
      o.submit("add", {o.in(x), o.inout(y), o.scalar(i)});
      o.submit("add", {o.in(y), o.reduce(t), o.scalar(i)});
    }
  });
  expect_clean(report);
  EXPECT_EQ(report.tasks, 12);
}

TEST(Checker, finds_nothing_where_manual_tasks_follow_whom_they_must) {
  expect_clean(check([](Orchestration& o) {
    const View x = o.inout(0), y = o.inout(1);
    const uint64_t a = o.submit("add", {o.inout(x), o.scalar(1)}, manual());
    const uint64_t b = o.submit("add", {o.inout(y), o.scalar(1)}, manual());
    const uint64_t both = o.submit(nullptr, {}, manual({a, b}));
    o.submit("add", {o.in(x), o.inout(y), o.scalar(1)}, manual({both}));
  }));
}

TEST(Checker, finds_tasks_that_no_path_orders) {
  const CheckReport report = check([](Orchestration& o) {
    const View x = o.inout(0);
    o.submit("add", {o.inout(x.slice(0, 0, 8)), o.scalar(1)}, manual(), "a.cpp", 3);
    o.submit("add", {o.inout(x.slice(0, 2, 16, 4)), o.scalar(1)}, manual(), "a.cpp", 4);
  });
  ASSERT_EQ(report.races.size(), 1u);
  const Race& race = report.races[0];
  EXPECT_EQ(race.from.id, 1u);
  EXPECT_EQ(race.to.id, 2u);
  EXPECT_EQ(race.from.site, "a.cpp:3");
  EXPECT_EQ(race.to.kernel, "add");
  EXPECT_EQ(race.bytes.memory, "argument 0");
  EXPECT_EQ(race.bytes.begin, 16);  // elements 2 and 6 are in both
  EXPECT_EQ(race.bytes.end, 56);
  EXPECT_EQ(race.bytes.count, 16);
  EXPECT_TRUE(report.writes.empty());
}

TEST(Checker, finds_a_reader_and_a_writer_that_nothing_orders) {
  for (bool is_ordered : {false, true}) {
    const CheckReport report = check([&](Orchestration& o) {
      const View x = o.inout(0), y = o.inout(1);
      const uint64_t a = o.submit("add", {o.no_dep(x), o.inout(y), o.scalar(1)});
      o.submit("add", {o.inout(x), o.scalar(1)}, is_ordered ? following({a}) : TaskOptions());
    });
    ASSERT_EQ(report.races.size(), is_ordered ? 0u : 1u);
    EXPECT_TRUE(report.surplus.empty());
    if (is_ordered) continue;
    EXPECT_EQ(report.races[0].from_access, Access::Read);
    EXPECT_EQ(report.races[0].to_access, Access::Update);
    EXPECT_EQ(report.races[0].bytes.count, 128);
  }
}

TEST(Checker, knows_that_untracked_reductions_take_no_turns) {
  const auto reduce_twice = [](const TaskOptions& options) {
    return check([options](Orchestration& o) {
      for (int i = 0; i < 2; ++i) o.submit("add", {o.reduce(o.inout(0)), o.scalar(1)}, options);
    });
  };
  expect_clean(reduce_twice({}));
  EXPECT_EQ(reduce_twice(manual()).races.size(), 1u);
}

TEST(Checker, knows_that_what_is_submitted_after_a_wait_comes_later) {
  const auto wait_and_write = [](bool is_waited_for) {
    return check([is_waited_for](Orchestration& o) {
      const View x = o.inout(0);
      o.submit("add", {o.inout(x), o.scalar(1)});
      if (is_waited_for) o.wait(x);
      o.submit("add", {o.inout(x), o.scalar(1)}, manual());
    });
  };
  expect_clean(wait_and_write(true));
  EXPECT_EQ(wait_and_write(false).races.size(), 1u);
}

TEST(Checker, finds_an_orchestration_that_waits_for_the_wrong_tasks) {
  const CheckReport report = check([](Orchestration& o) {
    const View x = o.inout(0);
    o.submit("add", {o.inout(x), o.scalar(1)}, manual());
    o.wait(x);  // knows of no writer
  });
  ASSERT_EQ(report.races.size(), 1u);
  EXPECT_EQ(report.races[0].to.id, 0u);
}

TEST(Checker, finds_edges_that_nothing_needs) {
  const CheckReport report = check([](Orchestration& o) {
    const View x = o.inout(0), y = o.inout(1);
    const uint64_t a = o.submit("add", {o.inout(x), o.scalar(1)});
    const uint64_t b = o.submit("add", {o.inout(y), o.scalar(1)}, following({a}));
    o.submit("add", {o.inout(y), o.scalar(1)}, following({b}));
    const uint64_t c = o.submit("add", {o.inout(x), o.scalar(1)}, manual({a}));
    o.submit("add", {o.inout(x), o.scalar(1)}, manual({a, c}));
  });
  EXPECT_TRUE(report.races.empty());
  ASSERT_EQ(report.surplus.size(), 3u);
  EXPECT_TRUE(report.surplus[0].is_implied);  // 2 to 3: by the memory too
  EXPECT_EQ(report.surplus[0].to.id, 3u);
  EXPECT_FALSE(report.surplus[1].is_implied);  // 1 to 2
  EXPECT_EQ(report.surplus[1].to.id, 2u);
  EXPECT_TRUE(report.surplus[2].is_implied);  // 1 to 5: by way of 4
  EXPECT_EQ(report.surplus[2].from.id, 1u);
  EXPECT_EQ(report.surplus[2].to.id, 5u);
}

TEST(Checker, finds_writes_that_were_not_declared) {
  const CheckReport input = check([](Orchestration& o) {
    o.submit("poke", {o.in(o.inout(0)), o.scalar(3)});
  });
  ASSERT_EQ(input.writes.size(), 1u);
  EXPECT_EQ(input.writes[0].kind, UndeclaredWrite::IntoInput);
  EXPECT_EQ(input.writes[0].bytes.memory, "argument 0");
  EXPECT_EQ(input.writes[0].bytes.begin, 24);
  EXPECT_EQ(input.writes[0].bytes.count, 1);  // 7 changes one byte

  const CheckReport beside = check([](Orchestration& o) {
    o.submit("poke", {o.inout(o.inout(1).slice(0, 4, 8)), o.scalar(5)});
  });
  ASSERT_EQ(beside.writes.size(), 1u);
  EXPECT_EQ(beside.writes[0].kind, UndeclaredWrite::BesideItsBox);
  EXPECT_EQ(beside.writes[0].bytes.begin, 72);

  for (int64_t where : {16, -1, 100}) {
    const CheckReport out = check([where](Orchestration& o) {
      o.tensor({4}, element::i64);
      o.submit("poke", {o.out(o.tensor({16}, element::i64)), o.scalar(where)});
    });
    ASSERT_EQ(out.writes.size(), 1u) << where;
    EXPECT_EQ(out.writes[0].kind, UndeclaredWrite::OutOfBounds);
    EXPECT_EQ(out.writes[0].bytes.memory, "tensor 2");
    EXPECT_EQ(out.writes[0].task.kernel, "poke");
    EXPECT_EQ(out.writes[0].bytes.begin, 8 * where);
    EXPECT_EQ(out.writes[0].bytes.count, 1);
  }
}

TEST(Checker, finds_a_write_into_memory_that_is_no_argument_of_the_task) {
  int64_t both[32] = {};
  static int64_t* other;
  other = both + 16;
  const OrchestrationProgram program{
      [](const pto_runtime_api* api, const pto_args* args) -> int32_t {
        Orchestration o(api, args);
        o.submit("elsewhere", {o.inout(o.inout(0)), o.scalar(0)});
        return 0;
      },
      {{"elsewhere", {[](const pto_args*) -> int32_t { return ++*other, 0; }, "elsewhere"}}}};
  const int64_t sizes[] = {16}, strides[] = {1};
  const pto_tensor tensors[] = {{both, sizes, strides, 1, 0, 64, 1, 0, 128},
                                {both + 16, sizes, strides, 1, 0, 64, 1, 0, 128}};
  const CheckReport report = check_orchestration(program, tensors, {});
  ASSERT_EQ(report.writes.size(), 1u);
  EXPECT_EQ(report.writes[0].kind, UndeclaredWrite::IntoOthers);
  EXPECT_EQ(report.writes[0].bytes.memory, "argument 1");
}

TEST(Checker, takes_a_write_through_no_dep_for_what_it_is) {
  const CheckReport report = check([](Orchestration& o) {
    const View x = o.inout(0), y = o.inout(1);
    o.submit("poke", {o.no_dep(x), o.scalar(0)});
    o.submit("add", {o.no_dep(x), o.inout(y), o.scalar(0)});
  });
  ASSERT_EQ(report.writes.size(), 1u);
  ASSERT_EQ(report.races.size(), 1u);
  EXPECT_EQ(report.races[0].from_access, Access::Update);
}

// Random programs of twenty tasks on 32 elements are clean, and never clean if nothing is inferred.
TEST(Checker, agrees_with_inference_on_random_programs) {
  const int rounds = rounds_of(200, 20000);
  int racing = 0;
  for (int round = 0; round < rounds; ++round) {
    for (bool is_manual : {false, true}) {
      const CheckReport report = check([&](Orchestration& o) {
        std::mt19937 random{unsigned(round)};
        const View views[] = {o.inout(0), o.inout(1)};
        for (int i = 0; i < 20; ++i) {
          const auto part = [&] {
            const int64_t begin = random() % 16;
            const auto length = int64_t(1 + random() % (16 - unsigned(begin)));
            return views[random() % 2].slice(0, begin, begin + length);
          };
          const View from = part(), to = part();
          o.submit("add", {o.in(from), o.inout(to), o.scalar(i)},
                   is_manual ? manual() : TaskOptions());
        }
      });
      EXPECT_TRUE(report.writes.empty()) << "round " << round;
      if (is_manual)
        racing += !report.races.empty();
      else
        EXPECT_TRUE(report.races.empty()) << "round " << round;
    }
  }
  EXPECT_EQ(racing, rounds);
}

TEST(Checker, fails_as_a_task_does) {
  try {
    check([](Orchestration& o) { o.submit("fail", {o.inout(o.inout(0))}, {}, "a.cpp", 9); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("task 1 (fail), submitted at a.cpp:9, failed while it was"));
    EXPECT_THAT(error.what(), HasSubstr("no luck"));
  }
}

}  // namespace pto::checker_test
