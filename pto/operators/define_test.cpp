// SPDX-License-Identifier: Apache-2.0
// Tests operators defined in C++: shapes over symbols; kernels with lists, texts and absent
// tensors; outputs in the memory of inputs.
#include "pto/operators/define.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "pto/base/evaluate_sizes.hpp"
#include "pto/operators/kernel_arguments.hpp"

namespace pto::op::define_test {

using testing::ElementsAre;
using testing::HasSubstr;

// Cuts x along axis 0 into parts of these sizes, times `factor`, minus `bias` if given.
int32_t cut(const pto_args* args) {
  const KernelArguments in(args);
  const auto sizes = in.integers(0);
  const double factor = in.real(1);
  const bool negate = in.text(2) == "negate";
  const auto* from = in.data<const float>(0);
  const auto* bias = in.is_absent(1) ? nullptr : in.data<const float>(1);
  for (int part = 0; part < sizes.size; ++part) {
    auto* to = in.data<float>(2 + part);
    for (int64_t i = 0; i < sizes[part]; ++i) {
      const float value = static_cast<float>(factor) * *from++ - (bias ? *bias : 0);
      to[i] = negate ? -value : value;
    }
  }
  return 0;
}

void infer_cut(Infer& call) {
  const TensorSpec x = call.tensor("x");
  Size total = call.constant(0);
  for (const int64_t size : call.integers("sizes")) {
    if (size < 0) return call.fail("a size is negative", "sizes count", "pass sizes of at least 0");
    call.output(x.dtype, {call.constant(size)});
    total = total + size;
  }
  call.end_list();
  call.require_equal(total, x.sizes.at(0), "cutting");
}

const Defined kCut = define({
    .schema = "test_cut(Tensor x, Tensor? bias, int[] sizes, float factor=1.0, str how='') -> "
              "Tensor[]",
    .types = "(T, T) -> T where T: f32",
    .infer = infer_cut,
    .kernels = {{"cpu", kAny, cut}},
});

// Element i of the result is element n-1-i of x; blocks share the elements.
int32_t reverse(const pto_args* args) {
  const KernelArguments in(args);
  const auto* x = in.data<const float>(0);
  auto* y = in.data<float>(1);
  const int64_t n = in.tensor(0).sizes[0];
  const auto [first, last] = in.items(n);
  for (int64_t i = first; i < last; ++i) y[i] = x[n - 1 - i];
  return 0;
}

void infer_reverse(Infer& call) {
  const TensorSpec x = call.tensor("x");
  call.output(x);
  call.work(x.sizes.at(0), x.sizes[0] * 8);
}

const Defined kReverse = define({.schema = "test_reverse(Tensor x) -> Tensor",
                                 .infer = infer_reverse,
                                 .kernels = {{"cpu", static_cast<int32_t>(DType::F32), reverse}}});

// A call whose outputs are vectors of floats.
struct Results {
  std::vector<std::vector<float>> lists = {};
  float* given = nullptr;  // memory for the only output

  static void* allocate(void* user, int32_t, int32_t, const int64_t* sizes, int32_t, int32_t) {
    auto& self = *static_cast<Results*>(user);
    if (self.given) return self.given;
    self.lists.emplace_back(static_cast<size_t>(sizes[0]) + 1);
    return self.lists.back().data();
  }
};

pto_tensor_ref vector_of(float* data, const int64_t* size, const int64_t* stride = nullptr,
                         DType dtype = DType::F32) {
  return {data, size, stride, 1, static_cast<int32_t>(dtype)};
}

// test_cut on `x`; returns the code.
int32_t run_cut(std::vector<float>& x, float* bias, const std::vector<int64_t>& sizes,
                const char* how, Results& results) {
  const int64_t n = static_cast<int64_t>(x.size()), one = 1;
  const pto_tensor_ref tensors[] = {vector_of(x.data(), &n), vector_of(bias, &one)};
  const int32_t counts[] = {1, bias ? 1 : 0};
  pto_operator_value values[3] = {};
  values[0].integers = sizes.data();
  values[0].count = static_cast<int64_t>(sizes.size());
  values[1].real = 2;
  values[2].text = how;
  values[2].count = static_cast<int64_t>(std::strlen(how));
  const pto_operator_call call{pto_operator_at(kCut.index), tensors,  counts,  values,
                               &Results::allocate,          &results, nullptr, nullptr};
  return pto_operator_run(&call);
}

TEST(DefinedInCpp, gets_lists_texts_and_numbers_and_returns_a_list) {
  std::vector<float> x = {1, 2, 3};
  float bias = 1;
  Results results;
  ASSERT_EQ(run_cut(x, &bias, {2, 1}, "negate", results), 0) << pto_operator_error();
  ASSERT_EQ(results.lists.size(), 2u);
  EXPECT_THAT(results.lists[0], ElementsAre(-1, -3, 0));
  EXPECT_THAT(results.lists[1], ElementsAre(-5, 0));
}

TEST(DefinedInCpp, knows_an_absent_tensor_and_an_empty_list) {
  std::vector<float> x = {1, 2}, empty;
  Results results, none;
  ASSERT_EQ(run_cut(x, nullptr, {0, 2}, "", results), 0) << pto_operator_error();
  EXPECT_THAT(results.lists[1], ElementsAre(2, 4, 0));
  ASSERT_EQ(run_cut(empty, nullptr, {}, "", none), 0) << pto_operator_error();
  EXPECT_TRUE(none.lists.empty());
}

TEST(DefinedInCpp, refuses_what_its_infer_refuses) {
  std::vector<float> x = {1, 2};
  Results results;
  EXPECT_NE(run_cut(x, nullptr, {1, 2}, "", results), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("test_cut: sizes 3 and 2 differ in cutting"));
  EXPECT_NE(run_cut(x, nullptr, {-1, 3}, "", results), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("test_cut: a size is negative"));
}

int32_t run_reverse(pto_tensor_ref x, Results& results) {
  const pto_operator_call call{pto_operator_at(kReverse.index),
                               &x,
                               nullptr,
                               nullptr,
                               &Results::allocate,
                               &results,
                               nullptr,
                               nullptr};
  return pto_operator_run(&call);
}

TEST(DefinedInCpp, splits_its_items_among_blocks) {
  std::vector<float> x(1 << 20), y(x.size());
  std::iota(x.begin(), x.end(), 0.0f);
  const int64_t n = static_cast<int64_t>(x.size());
  Results results{.given = y.data()};
  ASSERT_EQ(run_reverse(vector_of(x.data(), &n), results), 0) << pto_operator_error();
  EXPECT_TRUE(std::equal(x.rbegin(), x.rend(), y.begin()));
}

TEST(DefinedInCpp, gives_few_items_to_the_first_blocks) {
  pto_args args = {};
  args.blocks = 16;
  for (const int64_t all : {0, 1, 2, 15, 16, 17, 100}) {
    int64_t next = 0;
    for (args.block = 0; args.block < args.blocks; ++args.block) {
      const auto [first, last] = KernelArguments(&args).items(all);
      EXPECT_EQ(first, next) << all << " items, block " << args.block;
      EXPECT_EQ(last > first, all >= args.blocks || args.block < all);
      next = last;
    }
    EXPECT_EQ(next, all);
  }
}

TEST(DefinedInCpp, gets_dense_copies_of_tensors_with_gaps) {
  std::vector<float> x = {0, 1, 2, 3, 4, 5};
  const int64_t n = 3, two = 2, back = -2;
  Results results;
  ASSERT_EQ(run_reverse(vector_of(x.data(), &n, &two), results), 0) << pto_operator_error();
  ASSERT_EQ(run_reverse(vector_of(x.data() + 4, &n, &back), results), 0) << pto_operator_error();
  EXPECT_THAT(results.lists[0], ElementsAre(4, 2, 0, 0));
  EXPECT_THAT(results.lists[1], ElementsAre(0, 2, 4, 0));
}

TEST(DefinedInCpp, may_write_where_it_reads) {
  std::vector<float> x = {1, 2, 3, 4};
  const int64_t n = 3;
  Results same{.given = x.data()}, behind{.given = x.data() + 1};
  ASSERT_EQ(run_reverse(vector_of(x.data(), &n), same), 0) << pto_operator_error();
  EXPECT_THAT(x, ElementsAre(3, 2, 1, 4));
  ASSERT_EQ(run_reverse(vector_of(x.data(), &n), behind), 0) << pto_operator_error();
  EXPECT_THAT(x, ElementsAre(3, 1, 2, 3));
}

TEST(DefinedInCpp, refuses_element_types_by_name) {
  const int64_t n = 1;
  float x = 0;
  Results results;
  EXPECT_NE(run_reverse(vector_of(&x, &n, nullptr, DType::I32), results), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("test_reverse: x is i32"));
  EXPECT_NE(run_reverse(vector_of(&x, &n, nullptr, DType::F16), results), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("test_reverse: there is no kernel for f16"));
}

TEST(DefinedInCpp, runs_later_what_was_bound_before) {
  std::vector<float> x = {1, 2, 3}, y(3);
  pto_operator_launch* launch = nullptr;
  {
    const int64_t n = 3;
    pto_tensor_ref tensor = vector_of(x.data(), &n);
    Results results{.given = y.data()};
    const pto_operator_call call{pto_operator_at(kReverse.index),
                                 &tensor,
                                 nullptr,
                                 nullptr,
                                 &Results::allocate,
                                 &results,
                                 nullptr,
                                 nullptr};
    launch = pto_operator_bind(&call);
  }
  ASSERT_NE(launch, nullptr) << pto_operator_error();
  x[0] = 7;
  EXPECT_EQ(pto_operator_launch_run(launch), 0);
  pto_operator_launch_free(launch);
  EXPECT_THAT(y, ElementsAre(3, 2, 7));
}

TEST(DefinedInCpp, forgets_the_description_of_what_was_bound) {
  std::vector<float> x = {1, 9, 2, 9, 3}, y(3);
  pto_operator_launch* launch = nullptr;
  {
    auto size = std::make_unique<int64_t>(3), stride = std::make_unique<int64_t>(2);
    auto sizes = std::make_unique<std::vector<int64_t>>(1, 3);
    auto how = std::make_unique<std::string>("negate");
    auto counts = std::make_unique<std::vector<int32_t>>(std::vector<int32_t>{1, 0});
    auto tensor = std::make_unique<pto_tensor_ref>(vector_of(x.data(), size.get(), stride.get()));
    auto values = std::make_unique<std::array<pto_operator_value, 3>>();
    (*values)[0].integers = sizes->data();
    (*values)[0].count = 1;
    (*values)[1].real = 2;
    (*values)[2].text = how->data();
    (*values)[2].count = static_cast<int64_t>(how->size());
    Results results{.given = y.data()};
    const auto call = std::make_unique<const pto_operator_call>(
        pto_operator_call{pto_operator_at(kCut.index), tensor.get(), counts->data(), values->data(),
                          &Results::allocate, &results, nullptr, nullptr});
    launch = pto_operator_bind(call.get());
    *size = *stride = sizes->at(0) = 1 << 20;  // what is freed below may keep its value
    how->assign("nothing");
  }
  ASSERT_NE(launch, nullptr) << pto_operator_error();
  EXPECT_EQ(pto_operator_launch_run(launch), 0);
  pto_operator_launch_free(launch);
  EXPECT_THAT(y, ElementsAre(-2, -4, -6));
}

TEST(DefinedInCpp, says_its_shapes_over_symbols) {
  const pto_tensor_ref x = {nullptr, nullptr, nullptr, 1, static_cast<int32_t>(DType::F32)};
  const pto_operator_call call{
      pto_operator_at(kReverse.index), &x, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  const pto_shapes* shapes = pto_operator_shapes(&call);
  ASSERT_NE(shapes, nullptr) << pto_operator_error();
  ASSERT_EQ(shapes->n_tensors, 1);
  EXPECT_EQ(shapes->n_symbols, 1);
  const pto_dim& size = shapes->dims[shapes->tensors[0].sizes[0]];
  EXPECT_EQ(size.op, PTO_DIM_SYMBOL);
  EXPECT_EQ(pto_operator_shapes(&call), shapes);
}

const Defined kFitting = define({
    .schema = "test_fitting(Tensor x, Tensor y) -> Tensor",
    .types = "(T, T) -> T where T: f32",
    .infer =
        [](Infer& call) {
          const Size x = call.tensor("x").sizes.at(0), y = call.tensor("y").sizes.at(0);
          const Size both = size_broadcast(x, y);
          call.require_equal(both, both, "fitting");
          call.require_equal(x, x, "fitting");
          call.output(DType::F32, {});
        },
    .kernels = {{"cpu", kAny, cut}},
});

TEST(DefinedInCpp, may_ask_only_that_a_size_has_a_value) {
  const pto_tensor_ref row = {nullptr, nullptr, nullptr, 1, static_cast<int32_t>(DType::F32)};
  const pto_tensor_ref tensors[] = {row, row};
  const pto_operator_call call{pto_operator_at(kFitting.index),
                               tensors,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr};
  const pto_shapes* shapes = pto_operator_shapes(&call);
  ASSERT_NE(shapes, nullptr) << pto_operator_error();
  ASSERT_EQ(shapes->n_guards, 1) << "x always has a value";
  EXPECT_EQ(shapes->guards[0].left, shapes->guards[0].right);
  KnownSizes rules(*shapes);
  EXPECT_NO_THROW(evaluate_sizes<int64_t>(*shapes, {1, 5}, rules));
  EXPECT_THROW(evaluate_sizes<int64_t>(*shapes, {3, 4}, rules), SizeRefusal);
}

void expect_refused(const Definition& definition, const std::string& message) {
  try {
    define(definition);
    FAIL() << "accepted: " << definition.schema;
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(DefinedInCpp, is_refused_where_its_parts_do_not_fit) {
  const std::vector<pto_operator_kernel> kernels = {{"cpu", kAny, reverse}};
  expect_refused({.schema = "t_1(Tensor x) -> Tensor", .infer = infer_reverse},
                 "operator t_1: has 0 kernels for the platform cpu");
  expect_refused({.schema = "t_2(Tensor x) -> Tensor", .kernels = kernels}, "and no infer");
  expect_refused(
      {.schema = "test_reverse(Tensor x) -> Tensor", .infer = infer_reverse, .kernels = kernels},
      "operator test_reverse: is defined already");
  expect_refused({.schema = "t_3(Tensor x) -> Tensor",
                  .infer = infer_reverse,
                  .kernels = kernels,
                  .gradient = "unheard_of",
                  .wanted = "x"},
                 "operator t_3: its gradient operator unheard_of is not defined");
  expect_refused({.schema = "t_4(Tensor x) -> Tensor",
                  .infer = infer_reverse,
                  .kernels = kernels,
                  .gradient = "test_reverse",
                  .wanted = "x"},
                 "operator t_4: its gradient operator is test_reverse(Tensor x) -> Tensor, but "
                 "takes (Tensor, int) and returns (Tensor)");
  expect_refused({.schema = "t_5(Tensor x) -> Tensor",
                  .types = "(T, I) -> T",
                  .infer = infer_reverse,
                  .kernels = kernels},
                 "types \"(T, I) -> T\" name 2 arguments and 1 outputs, but t_5(Tensor x) -> "
                 "Tensor has 1 and 1");
}

}  // namespace pto::op::define_test
