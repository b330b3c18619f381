// SPDX-License-Identifier: Apache-2.0
// Tests orchestrations through the C table: views, scopes, conditions, and what they refuse.
#include "pto/tasks/cores/orchestrate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "pto/base/error.hpp"
#include "tests/task_tensors.hpp"

namespace pto::orchestrate_test {

using testing::HasSubstr;

// Sets every element of the last tensor y to scalar 0, or to x + scalar 0 if there are two tensors.
int32_t add_number(const pto_args* args) {
  const pto_tensor& y = args->tensors[args->n_tensors - 1];
  const pto_tensor& x = args->tensors[0];
  // The product of the other sizes may leave 64 bits.
  if (std::find(y.sizes, y.sizes + y.rank, 0) != y.sizes + y.rank) return 0;
  int64_t n = 1;
  for (int32_t k = 0; k < y.rank; ++k) n *= y.sizes[k];
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, to = 0, from = 0;
    for (int32_t k = y.rank - 1; k >= 0; --k) {
      to += rest % y.sizes[k] * y.strides[k];
      from += rest % y.sizes[k] * x.strides[k];
      rest /= y.sizes[k];
    }
    const int64_t value = args->n_tensors == 2 ? static_cast<int64_t*>(x.data)[from] : 0;
    static_cast<int64_t*>(y.data)[to] = value + int64_t(args->scalars[0]);
  }
  return 0;
}

thread_local std::function<void(Orchestration&)> t_body;
int32_t orchestrate(const pto_runtime_api* api, const pto_args* args) {
  Orchestration o(api, args);
  t_body(o);
  return 0;
}

struct Array {
  std::vector<int64_t> values, sizes, strides;
  uint32_t flags = 0;

  pto_tensor tensor() {
    pto_tensor t = int64_tensor(values.data(), sizes, strides);
    t.flags = flags;
    return t;
  }
};
Array array_of(int64_t rows, int64_t cols) {
  Array a{std::vector<int64_t>(size_t(rows * cols)), {rows, cols}, {cols, 1}};
  std::iota(a.values.begin(), a.values.end(), 0);
  return a;
}

RunReport run(std::vector<Array*> arrays, std::function<void(Orchestration&)> body,
              std::vector<uint64_t> scalars = {}) {
  t_body = std::move(body);
  OrchestrationProgram program{orchestrate, {{"add", {add_number, "add"}}}};
  std::vector<pto_tensor> tensors;
  for (Array* array : arrays) tensors.push_back(array->tensor());
  RunOptions options;
  options.workers = 1;  // so that t_body is found
  return run_orchestration(program, tensors, scalars, options);
}
std::string error_of(std::vector<Array*> arrays, std::function<void(Orchestration&)> body) {
  try {
    run(std::move(arrays), std::move(body));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Orchestration, views_are_the_parts_that_they_say) {
  Array x = array_of(6, 8);
  run({&x}, [](Orchestration& o) {
    const View v = o.inout(0);
    EXPECT_EQ(v.shape(), (Dimensions{6, 8}));
    EXPECT_EQ(v.numel(), 48);
    EXPECT_EQ(v.slice(0, 1, 6, 2).strides(), (Dimensions{16, 1}));
    EXPECT_EQ(v.slice(-1, 2, 2).shape(), (Dimensions{6, 0}));
    EXPECT_EQ(v[2].shape(), (Dimensions{8}));
    EXPECT_EQ(v.transpose(0, 1).strides(), (Dimensions{1, 8}));
    EXPECT_EQ(v.permute({1, 0}).shape(), (Dimensions{8, 6}));
    EXPECT_EQ(v.reshape({2, 3, 8}).strides(), (Dimensions{24, 8, 1}));
    EXPECT_EQ(v.slice(1, 0, 8, 2).reshape({24}).strides(), (Dimensions{2}));
    for (const Dimensions& shape : {Dimensions{5, 0}, Dimensions{0, 5}, Dimensions{7, 0, 3}})
      EXPECT_EQ(v.slice(0, 2, 2).reshape(shape).shape(), shape);
    EXPECT_EQ(v.transpose(0, 1).slice(0, 8, 8).reshape({0}).shape(), (Dimensions{0}));
    EXPECT_EQ(o.read<int64_t>(v[3].slice(0, 5, 6)), 29);
    EXPECT_EQ(o.read<int64_t>(v.transpose(0, 1)[5].slice(0, 3, 4)), 29);
  });
}

TEST(Orchestration, computes_through_tensors_of_its_own_and_parts_of_others) {
  Array x = array_of(6, 8), y = array_of(6, 8);
  x.flags = PTO_TENSOR_READ_ONLY;
  const RunReport report =
      run({&x, &y},
          [](Orchestration& o) {
            const View in = o.input(0), out = o.output(1);
            for (int half = 0; half < 2; ++half) {
              const auto scope = o.scope();
              const View part = in.slice(1, 4 * half, 4 * half + 4);
              const View t = o.tensor(part.shape(), part.dtype());
              o.submit("add", {o.in(part), o.out(t), o.scalar(o.integer(0))});
              o.submit("add", {o.in(t), o.out(out.slice(1, 4 * half, 4 * half + 4)), o.scalar(1)});
            }
            o.wait(out);
            EXPECT_EQ(o.read<int64_t>(out[5].slice(0, 7, 8)), 58);
          },
          {10});
  for (size_t i = 0; i < 48; ++i) EXPECT_EQ(y.values[i], int64_t(i) + 11);
  EXPECT_EQ(report.tasks, 4);
  EXPECT_EQ(report.edges, 2);
}

TEST(Orchestration, skips_by_a_condition_and_follows_by_id) {
  Array x = array_of(1, 4), y = array_of(1, 4);
  const RunReport report = run({&x, &y}, [](Orchestration& o) {
    const View in = o.inout(0), out = o.inout(1);
    const View flag = in[0].slice(0, 2, 3);
    TaskOptions options;
    options.condition = &flag;
    options.compare = PTO_IF_GT;
    options.value = 5;
    o.submit("add", {o.in(in), o.out(out), o.scalar(100)}, options);  // 2 > 5: no
    const uint64_t first = o.submit("add", {o.out(flag), o.scalar(9)});
    options.after = {first};
    o.submit("add", {o.in(in), o.out(out), o.scalar(1000)}, options);
    o.submit(nullptr, {o.inout(out)});
  });
  EXPECT_EQ(y.values, (std::vector<int64_t>{1000, 1001, 1009, 1003}));
  EXPECT_EQ(report.skipped, 1);
}

// The products of these sizes and steps leave 64 bits, which UndefinedBehaviorSanitizer sees.
TEST(Orchestration, empty_views_and_single_elements_may_have_huge_extents_and_steps) {
  constexpr int64_t kHuge = int64_t(1) << 40, kMost = std::numeric_limits<int64_t>::max();
  Array x = array_of(6, 8);
  run({&x}, [&](Orchestration& o) {
    const View v = o.inout(0), none = v.slice(0, 6, 6);
    EXPECT_EQ(none.raw().data, v.raw().data) << "the end of a tensor may be memory of another";
    for (const Dimensions& shape : {Dimensions{0, kHuge, kHuge}, Dimensions{kHuge, kHuge, 0}}) {
      const View wide = none.reshape(shape);
      EXPECT_EQ(wide.shape(), shape);
      EXPECT_EQ(wide.numel(), 0);
      EXPECT_EQ(wide.transpose(0, 2).reshape({3, 0}).shape(), (Dimensions{3, 0}));
      EXPECT_EQ(wide.slice(1, 5, kHuge, 3).shape()[1], (kHuge - 5 + 2) / 3);
      o.submit("add", {o.in(wide), o.out(wide), o.scalar(1)});
    }
    EXPECT_EQ(v.slice(0, 1, 6, kMost).shape(), (Dimensions{1, 8}));
    EXPECT_EQ(o.read<int64_t>(v[3].slice(0, 5, 8, kMost)), 29);
  });
}

TEST(Orchestration, refuses_what_it_cannot_do) {
  Array x = array_of(2, 4);
  x.flags = PTO_TENSOR_READ_ONLY;
  const auto error = [&](std::function<void(Orchestration&)> body) {
    return error_of({&x}, std::move(body));
  };
  EXPECT_THAT(error([](Orchestration& o) { o.input(1); }),
              HasSubstr("tensor 1 was asked for, but the run has 1"));
  EXPECT_THAT(error([](Orchestration& o) { o.integer(0); }),
              HasSubstr("scalar 0 was asked for, but the run has 0"));
  EXPECT_THAT(error([](Orchestration& o) { o.submit("sub", {}); }),
              HasSubstr("kernel \"sub\", but this orchestration has no kernel of that name\n  why: "
                        "it was registered "
                        "with: add"));
  EXPECT_THAT(error([](Orchestration& o) {
                o.submit("add", {o.out(o.input(0)), o.scalar(1)});
              }),
              HasSubstr("writes an input of the run"));
  EXPECT_THAT(error([](Orchestration& o) {
                o.submit("add", {o.out(View()), o.scalar(1)});
              }),
              HasSubstr("argument 0 of a task is no tensor of this run"));
  EXPECT_THAT(error([](Orchestration& o) {
                o.tensor({1, -2}, element::f32);
              }),
              HasSubstr("a dimension of -2"));
  EXPECT_THAT(error([](Orchestration& o) {
                o.tensor({int64_t(1) << 40, int64_t(1) << 40}, element::f32);
              }),
              HasSubstr("fit 63 bits"));
  EXPECT_THAT(error([](Orchestration& o) { o.tensor(Dimensions(9, 1), element::f32); }),
              HasSubstr("9 dimensions"));
  EXPECT_THAT(error([](Orchestration& o) { o.input(0).slice(1, 3, 5); }),
              HasSubstr("slice(1, 3, 5, 1) of 4 elements"));
  EXPECT_THAT(error([](Orchestration& o) { o.input(0).slice(2, 0, 1); }),
              HasSubstr("dimension 2 of a tensor of 2"));
  EXPECT_THAT(error([](Orchestration& o) {
                o.input(0).permute({0, 0});
              }),
              HasSubstr("permutation"));
  EXPECT_THAT(error([](Orchestration& o) { o.input(0).reshape({7}); }),
              HasSubstr("reshape() of 8 elements to [7]\n  why"));
  for (const Dimensions& shape : {Dimensions{int64_t(1) << 62, 4}, Dimensions{-2, -4}})
    EXPECT_THAT(error([&](Orchestration& o) { o.input(0).reshape(shape); }),
                HasSubstr("8 dimensions of at least 0"));
  for (const int64_t index : {int64_t(-1), int64_t(2), std::numeric_limits<int64_t>::max()})
    EXPECT_THAT(error([&](Orchestration& o) { o.input(0)[index]; }),
                HasSubstr("[" + std::to_string(index) + "] of 2 elements"));
  EXPECT_THAT(error([](Orchestration& o) { o.input(0).transpose(0, 1).reshape({8}); }),
              HasSubstr("do not lie evenly"));
  EXPECT_THAT(error([](Orchestration& o) { o.read<int32_t>(o.input(0)); }),
              HasSubstr("the size of T is 32 bits, that of an element is 64"));
  EXPECT_THAT(error([](Orchestration&) { throw std::runtime_error("mine"); }),
              HasSubstr("the orchestration raised: mine"));
  EXPECT_THAT(error([](Orchestration& o) {
                View lost;
                {
                  const auto scope = o.scope();
                  lost = o.tensor({4}, element::i64);
                }
                o.submit("add", {o.out(lost), o.scalar(1)});
              }),
              HasSubstr("its scope has ended"));
}

}  // namespace pto::orchestrate_test
