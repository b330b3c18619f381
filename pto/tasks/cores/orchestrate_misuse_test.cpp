// SPDX-License-Identifier: Apache-2.0
// Tests misuse of the table of C functions: each mistake is an error with a text, unchecked values
// are never read, and the run can go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/tasks/cores/live_tensors.hpp"
#include "pto/tasks/cores/orchestrate.hpp"
#include "tests/task_tensors.hpp"

namespace pto::orchestrate_misuse_test {

using testing::HasSubstr;
using Api = const pto_runtime_api*;

std::function<void(Api)> g_body;  // of one run at a time
std::atomic<int64_t> g_calls;

int32_t orchestrate(Api api, const pto_args*) {
  g_body(api);
  return 0;
}
int32_t count(const pto_args* args) {
  if (args->blocks == 1) ++*static_cast<int64_t*>(args->tensors[0].data);
  return int32_t(args->n_scalars > 0 && g_calls.fetch_add(1) == int64_t(args->scalars[0]));
}

RunReport run(std::vector<int64_t>& x, std::function<void(Api)> body, RunOptions options = {}) {
  const int64_t sizes[] = {int64_t(x.size())}, strides[] = {1};
  const pto_tensor tensor = int64_tensor(x.data(), {sizes, 1}, {strides, 1});
  const OrchestrationProgram program{orchestrate, {{"count", {count, "count"}}}};
  g_body = std::move(body);
  if (options.workers == 0) options.workers = 1;
  return run_orchestration(program, {&tensor, 1}, std::vector<uint64_t>{7}, options);
}

// A correct submission, of which each test spoils one field.
struct Submission {
  pto_view view{}, condition{};
  pto_step step{PTO_STEP_CONSTANT, 0, 1};
  pto_task_argument args[2]{};
  uint64_t task = 0;
  pto_submission all{};

  explicit Submission(Api api) {
    api->argument(api->run, 0, &view);
    api->argument(api->run, 0, &condition);
    args[0].kind = PTO_ARG_INOUT;
    args[0].view = &view;
    args[1].kind = PTO_ARG_SCALAR;
    args[1].scalar = UINT64_MAX;
    all.kernel = "count";
    all.args = args;
    all.n_args = 2;
    all.blocks = 1;
    all.compare = PTO_IF_GE;
    all.value = INT_MIN;
  }
};

struct Spoilt {
  const char* text;
  std::function<void(Submission&)> spoil;
};

const std::vector<Spoilt> kSpoilt = {
    {"n_args -1", [](Submission& s) { s.all.n_args = -1; }},
    {"n_args 2 with null args", [](Submission& s) { s.all.args = nullptr; }},
    {"n_after -1", [](Submission& s) { s.all.n_after = -1; }},
    {"n_after 1 with a null after", [](Submission& s) { s.all.n_after = 1; }},
    {"has the kind 99", [](Submission& s) { s.args[0].kind = 99; }},
    {"has the kind -1", [](Submission& s) { s.args[0].kind = -1; }},
    {"a scalar has the kind 77", [](Submission& s) { s.args[1].number = 77; }},
    {"a scalar has the kind -1", [](Submission& s) { s.args[1].number = -1; }},
    {"n_steps -1", [](Submission& s) { s.args[1].n_steps = -1; }},
    {"n_steps 1 with null steps", [](Submission& s) { s.args[1].n_steps = 1; }},
    {"are no expression",
     [](Submission& s) {
       s.step.operation = INT_MIN;
       s.args[1].n_steps = 1;
       s.args[1].steps = &s.step;
     }},
    {"argument 0 of a task is no tensor of this run",
     [](Submission& s) { s.args[0].view = nullptr; }},
    {"is no tensor of this run", [](Submission& s) { s.view.allocation = nullptr; }},
    {"is no tensor of this run", [](Submission& s) { s.view.allocation = &s; }},
    {"a view of -1 dimensions", [](Submission& s) { s.view.rank = -1; }},
    {"a view of 9 dimensions", [](Submission& s) { s.view.rank = 9; }},
    {"a view of 1000 dimensions", [](Submission& s) { s.view.rank = 1000; }},
    {"reaches beyond its tensor: sizes [5]", [](Submission& s) { s.view.sizes[0] = 5; }},
    {"sizes [-1]", [](Submission& s) { s.view.sizes[0] = -1; }},
    {"reaches beyond", [](Submission& s) { s.view.sizes[0] = INT64_MAX; }},
    {"strides [2]", [](Submission& s) { s.view.strides[0] = 2; }},
    {"reaches beyond", [](Submission& s) { s.view.strides[0] = INT64_MIN; }},
    {"strides [-1]", [](Submission& s) { s.view.strides[0] = -1; }},
    {"from byte 8 of 32",
     [](Submission& s) { s.view.data = static_cast<int64_t*>(s.view.data) + 1; }},
    {"from byte -8 of 32",
     [](Submission& s) { s.view.data = static_cast<int64_t*>(s.view.data) - 1; }},
    {"reaches beyond", [](Submission& s) { s.view.data = nullptr; }},
    {"code 0 and 0 bits", [](Submission& s) { s.view.type_bits = 0; }},
    {"code 0 and 4 bits", [](Submission& s) { s.view.type_bits = 4; }},
    {"the comparison 9",
     [](Submission& s) {
       s.all.condition = &s.condition;
       s.all.compare = 9;
     }},
    {"on a view whose size is 0",
     [](Submission& s) {
       s.all.condition = &s.condition;
       s.condition.sizes[0] = 0;
     }},
    {"type code 5 and 64 bits",
     [](Submission& s) {
       s.all.condition = &s.condition;
       s.condition.type_code = 5;
     }},
    {"the element of a condition is no tensor",
     [](Submission& s) {
       s.all.condition = &s.condition;
       s.condition.allocation = nullptr;
     }},
    {"a task of 0 blocks", [](Submission& s) { s.all.blocks = 0; }},
    {"a task of -1 blocks", [](Submission& s) { s.all.blocks = -1; }},
    {"a task of 2147483647 blocks", [](Submission& s) { s.all.blocks = INT_MAX; }},
    {"but this orchestration has no kernel of that name", [](Submission& s) { s.all.kernel = ""; }},
};

void expect_error(Api api, int32_t code, const char* text) {
  EXPECT_NE(code, 0) << text;
  EXPECT_THAT(api->last_error(api->run), HasSubstr(text));
  EXPECT_THAT(api->last_error(api->run), HasSubstr("\n  why: "));
  EXPECT_THAT(api->last_error(api->run), HasSubstr("\n  fix: "));
}

TEST(OrchestrationMisuse, a_submission_is_read_as_far_as_it_was_checked) {
  std::vector<int64_t> x(4);
  run(x, [](Api api) {
    for (const Spoilt& one : kSpoilt) {
      Submission s(api);
      one.spoil(s);
      expect_error(api, api->submit(api->run, &s.all, &s.task), one.text);
    }
    Submission s(api);
    expect_error(api, api->submit(api->run, nullptr, &s.task), "submit() without a submission");
    expect_error(api, api->submit(api->run, &s.all, nullptr), "without a place for the task");
    EXPECT_EQ(api->submit(api->run, &s.all, &s.task), 0) << api->last_error(api->run);
  });
  EXPECT_EQ(x[0], 1);
}

TEST(OrchestrationMisuse, the_other_functions_check_what_they_get) {
  std::vector<int64_t> x(4);
  run(x, [](Api api) {
    pto_view view{}, none{};
    uint64_t bits = 0;
    void* const r = api->run;
    for (const int32_t index : {-1, 1, INT_MAX, INT_MIN}) {
      expect_error(api, api->argument(r, index, &view), "was asked for, but the run has 1");
      expect_error(api, api->scalar(r, index, PTO_NUMBER_SIGNED, &bits),
                   "was asked for, but the run has 1");
      EXPECT_EQ(api->scalar_kind(r, index), -1);
    }
    expect_error(api, api->argument(r, 0, nullptr), "the pointer is null");
    expect_error(api, api->scalar(r, 0, PTO_NUMBER_SIGNED, nullptr), "the pointer is null");
    expect_error(api, api->allocate(r, nullptr), "the pointer is null");
    expect_error(api, api->wait(r, nullptr), "is waited for is no tensor of this run");
    expect_error(api, api->wait(r, &none), "is waited for is no tensor of this run");
    view.type_code = 2;
    for (const uint8_t wrong : {0, 4, 12, 255}) {
      view.type_bits = wrong;
      expect_error(api, api->allocate(r, &view), "elements have whole bytes");
    }
    view.type_bits = 32;
    for (const int32_t rank : {-1, 9, 1000, INT_MAX}) {
      view.rank = rank;
      expect_error(api, api->allocate(r, &view), "dimensions");
    }
    view.rank = 1;
    view.sizes[0] = 16;
    EXPECT_EQ(api->allocate(r, &view), 0);
    pto_view argument{};
    EXPECT_EQ(api->argument(r, 0, &argument), 0);
    for (const pto_view* one :
         {static_cast<const pto_view*>(nullptr), &std::as_const(none), &std::as_const(argument),
          &std::as_const(view), &std::as_const(view)})
      api->let_go(r, one);  // the last once too often
    expect_error(api, api->wait(r, &view), "its scope has ended");
    EXPECT_EQ(api->wait(r, &argument), 0);
  });
}

TEST(OrchestrationMisuse, views_are_inside_where_each_element_is) {
  std::mt19937 random(5);
  std::vector<int64_t> x(24);
  int inside = 0;
  run(x, [&](Api api) {
    for (int i = 0; i < 4000; ++i) {
      const auto below = [&](int n) { return int64_t(random() % unsigned(n)); };
      Submission s(api);
      pto_view& view = s.view;
      view.data = x.data() + below(28) - 2;
      view.rank = int32_t(below(4));
      int64_t elements = 1;
      for (int k = 0; k < view.rank; ++k) {
        view.sizes[k] = below(20) == 0 ? 0 : 1 + below(4);
        view.strides[k] = below(9) - 2;
        elements *= view.sizes[k];
      }
      int64_t low = static_cast<int64_t*>(view.data) - x.data(), high = low;
      for (int64_t e = 0; e < elements; ++e) {
        int64_t at = static_cast<int64_t*>(view.data) - x.data(), rest = e;
        for (int k = 0; k < view.rank; rest /= view.sizes[k++])
          at += rest % view.sizes[k] * view.strides[k];
        low = std::min(low, at);
        high = std::max(high, at);
      }
      const bool is_inside = elements == 0 || (low >= 0 && high < 24);
      inside += is_inside;
      s.args[0].kind = PTO_ARG_NO_DEP;
      s.all.kernel = nullptr;
      EXPECT_EQ(api->submit(api->run, &s.all, &s.task) == 0, is_inside)
          << api->last_error(api->run);
    }
  });
  EXPECT_GT(inside, 500);
  EXPECT_LT(inside, 3500);
}

TEST(OrchestrationMisuse, no_block_begins_after_one_that_failed_or_came_late) {
  for (const int workers : {1, 2}) {
    for (const bool is_late : {false, true}) {
      std::vector<int64_t> x(1);
      g_calls = 0;
      RunOptions options;
      options.workers = workers;
      options.deadline_s = is_late ? 0.01 : 0;
      const auto body = [&](Api api) {
        Submission s(api);
        s.all.blocks = 1 << 28;
        s.args[0].view = &s.view;
        s.args[1].scalar = is_late ? UINT64_MAX : 1000;
        EXPECT_EQ(api->submit(api->run, &s.all, &s.task), 0) << api->last_error(api->run);
      };
      EXPECT_THROW(run(x, body, options), Error);
      EXPECT_LT(g_calls.load(), 1 << 28) << workers;
    }
  }
}

}  // namespace pto::orchestrate_misuse_test
