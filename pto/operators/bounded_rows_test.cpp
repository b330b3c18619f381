// SPDX-License-Identifier: Apache-2.0
// Tests outputs whose number of rows the kernel reports: who is told, and what is refused.
#include "pto/operators/bounded_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pto/operators/define.hpp"
#include "pto/operators/kernel_arguments.hpp"

namespace pto::op::bounded_rows_test {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the positive elements of x. An element of -1 makes it fail, -2 report nothing, and -n, n
// > 2, report n rows.
int32_t positive(const pto_args* args) {
  const KernelArguments in(args);
  const auto* x = in.data<const float>(0);
  auto* to = in.data<float>(1);
  int64_t rows = 0;
  for (int64_t i = 0; i < in.tensor(0).sizes[0]; ++i) {
    if (x[i] == -1) return in.fail("positive: there is a -1");
    if (x[i] == -2) return 0;
    if (x[i] <= -3) rows = static_cast<int64_t>(-x[i]);
    if (x[i] > 0) to[rows++] = x[i];
  }
  *in.data<int64_t>(2) = rows;
  return 0;
}

void infer_positive(Infer& call) { call.output(call.tensor("x")); }

const Defined kPositive = define({.schema = "test_positive(Tensor x) -> Tensor",
                                  .types = "T -> T where T: f32",
                                  .infer = infer_positive,
                                  .kernels = {{"cpu", kAny, positive}},
                                  .bounded = "result"});

struct Call {
  explicit Call(std::vector<float> elements) : x(std::move(elements)) {}

  // Runs by pto_operator_run, by pto_operator_site_run, or by bind and launch; returns the code.
  enum class Way { Run, Site, Launch };
  int32_t run(Way way, bool takes_rows = true) {
    const auto allocate = [](void* user, int32_t, int32_t, const int64_t* sizes, int32_t,
                             int32_t) -> void* {
      auto& self = *static_cast<Call*>(user);
      self.result.resize(static_cast<size_t>(sizes[0]));
      static float none;
      return self.result.empty() ? &none : self.result.data();
    };
    const auto narrow = [](void* user, int32_t output, int64_t rows) {
      auto& self = *static_cast<Call*>(user);
      EXPECT_EQ(output, 0);
      ++self.told;
      self.result.resize(static_cast<size_t>(rows));
    };
    const auto size = static_cast<int64_t>(x.size());
    const pto_tensor_ref tensor = {x.data(), &size, nullptr, 1, static_cast<int32_t>(DType::F32)};
    pto_operator_call asking = {pto_operator_at(kPositive.index),
                                &tensor,
                                nullptr,
                                nullptr,
                                allocate,
                                this,
                                nullptr,
                                nullptr};
    if (takes_rows) asking.narrow = narrow;
    if (way == Way::Run) return pto_operator_run(&asking);
    if (way == Way::Site) {
      pto_operator_site* site = pto_operator_site_new();
      int32_t code = 0;
      for (int round = 0; round < 2 && code == 0; ++round) {
        code = pto_operator_site_run(site, &asking);
      }
      pto_operator_site_free(site);
      return code;
    }
    pto_operator_launch* launch = pto_operator_bind(&asking);
    if (!launch) return 1;
    EXPECT_EQ(told, 0);
    const int32_t code = pto_operator_launch_run(launch);
    pto_operator_launch_free(launch);
    return code;
  }

  std::vector<float> x, result = {};
  int told = 0;
};

class EveryWay : public testing::TestWithParam<Call::Way> {};
INSTANTIATE_TEST_SUITE_P(BoundedRows, EveryWay,
                         testing::Values(Call::Way::Run, Call::Way::Site, Call::Way::Launch));

TEST_P(EveryWay, tells_the_caller_how_many_rows_there_are) {
  Call some({0, 3, -0.5, 4}), all({1, 2}), none({0, 0, 0}), empty({});
  for (Call* call : {&some, &all, &none, &empty}) {
    ASSERT_EQ(call->run(GetParam()), 0) << pto_operator_error();
    EXPECT_EQ(call->told, GetParam() == Call::Way::Site ? 2 : 1);
  }
  EXPECT_THAT(some.result, ElementsAre(3, 4));
  EXPECT_THAT(all.result, ElementsAre(1, 2));
  EXPECT_TRUE(none.result.empty());
  EXPECT_TRUE(empty.result.empty());
}

TEST_P(EveryWay, refuses_a_kernel_that_says_more_than_its_bound_or_nothing) {
  const auto error_of = [](std::vector<float> x) {
    Call call(std::move(x));
    EXPECT_NE(call.run(GetParam()), 0);
    EXPECT_EQ(call.told, 0);
    return std::string(pto_operator_error());
  };
  EXPECT_THAT(
      error_of({0, -4}),
      HasSubstr(
          "test_positive: for the rows of result its kernel says 4, but infer allows 0 to 2"));
  EXPECT_THAT(error_of({1, -2}), HasSubstr("its kernel says no number, but infer allows 0 to 2"));
  EXPECT_THAT(error_of({1, -1}), HasSubstr("positive: there is a -1"));
}

TEST_P(EveryWay, refuses_a_caller_that_does_not_ask) {
  Call call({1, 2});
  EXPECT_NE(call.run(GetParam(), false), 0);
  EXPECT_THAT(pto_operator_error(),
              HasSubstr("test_positive: the size of its result is known only after it ran"));
}

std::string refusal(const Definition& definition) {
  try {
    define(definition);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(BoundedRows, are_those_of_an_output_that_is_no_list_and_replaces_nothing) {
  Definition one{.schema = "test_bounded_1(Tensor x) -> Tensor",
                 .infer = infer_positive,
                 .kernels = {{"cpu", kAny, positive}},
                 .bounded = "places"};
  EXPECT_THAT(refusal(one), HasSubstr("test_bounded_1: places cannot be bounded in"));
  one.schema = "test_bounded_2(Tensor(a!) x) -> Tensor(a!)";
  one.bounded = "x";
  EXPECT_THAT(refusal(one), HasSubstr("test_bounded_2: x cannot be bounded in"));
  one.schema = "test_bounded_3(Tensor x) -> (Tensor first, Tensor[] rest)";
  one.bounded = "first";
  EXPECT_THAT(refusal(one), HasSubstr("test_bounded_3: first cannot be bounded in"));
}

TEST(BoundedRows, stand_along_the_first_axis) {
  const Defined flat =
      define({.schema = "test_bounded_4(Tensor x) -> Tensor",
              .infer = [](Infer& call) { call.output(call.tensor("x").dtype, {}); },
              .kernels = {{"cpu", kAny, positive}},
              .bounded = "result"});
  const pto_tensor_ref x = {nullptr, nullptr, nullptr, 1, static_cast<int32_t>(DType::F32)};
  const pto_operator_call call = {
      pto_operator_at(flat.index), &x, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  EXPECT_EQ(pto_operator_shapes(&call), nullptr);
  EXPECT_THAT(pto_operator_error(), HasSubstr("test_bounded_4: infer gives output result no axis"));
}

}  // namespace pto::op::bounded_rows_test
