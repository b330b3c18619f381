// SPDX-License-Identifier: Apache-2.0
// Tests the registry and its plain-C face, with a hand-written kernel in place of a compiled one.
#include "pto/operators/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <thread>

#include "pto/base/error.hpp"
#include "pto/base/strided.hpp"
#include "pto/operators/operator.hpp"

namespace pto::registry_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::atomic<int> compilations{0};

// result = x + factor * y, elementwise; one block handles all.
int32_t scaled_add(const pto_args* args) {
  const auto* x = static_cast<const float*>(args->tensors[0].data);
  const auto* y = static_cast<const float*>(args->tensors[1].data);
  auto* result = static_cast<float*>(args->tensors[2].data);
  for (int i = 0; i < 3; ++i)
    if (!is_aligned(args->tensors[i].data, DType::F32)) return 1;
  const double factor = std::bit_cast<double>(args->scalars[0]);
  for (int64_t i = 0; args->block == 0 && i < args->tensors[0].sizes[0]; ++i) {
    result[i] = x[i] + static_cast<float>(factor) * y[i];
  }
  return 0;
}

std::shared_ptr<const Program> make_scaled_add(const KernelRequest& request) {
  ++compilations;
  if (request.signature.count != 2) {
    fail({"scaled_add needs y", "the test's kernel takes two tensors", "give y"});
  }
  const Dims shape = {Dim::symbol(0)};
  ProgramSpec spec;
  spec.name = "scaled_add";
  spec.inputs = {{"x", DType::F32, shape, {}}, {"y", DType::F32, shape, {}}};
  spec.outputs = {{"result", DType::F32, shape, {}}};
  spec.scalars = {{"factor", DType::F64}};
  spec.launches = {{"scaled_add", {0, 1, 2}, Dim::symbol(0), Dim::symbol(0) * 12, 1}};
  return std::make_shared<Program>(spec, std::vector<pto_kernel>{scaled_add}, nullptr);
}

const pto_operator* scaled_add_operator() {
  static const int index = define_operator(
      {.schema = "scaled_add(Tensor x, Tensor? y, *, float factor=2.0, str mode='a', int n=1)"
                 " -> Tensor"});
  set_providers({make_scaled_add, {}});
  return pto_operator_at(index);
}

// A call on vectors.
struct Vectors {
  std::vector<float> x = {}, y = {}, result = {};
  std::string mode = "a";
  double factor = 2.0;
  bool has_y = true;

  int32_t run() {
    const int64_t x_size = static_cast<int64_t>(x.size()), y_size = static_cast<int64_t>(y.size());
    const int64_t stride = 1;
    const auto f32 = static_cast<int32_t>(DType::F32);
    const pto_tensor_ref tensors[] = {{x.data(), &x_size, &stride, 1, f32},
                                      {y.data(), &y_size, nullptr, 1, f32}};
    const int32_t counts[] = {1, has_y ? 1 : 0};
    pto_operator_value values[3] = {};
    values[0].real = factor;
    values[1].text = mode.data();
    values[1].count = static_cast<int64_t>(mode.size());
    values[2].integer = 1;
    const auto allocate = [](void* user, int32_t, int32_t, const int64_t* sizes, int32_t rank,
                             int32_t) -> void* {
      auto& self = *static_cast<Vectors*>(user);
      if (rank != 1) return nullptr;
      self.result.resize(static_cast<size_t>(sizes[0]) + 1);
      return self.result.data();
    };
    const pto_operator_call call = {
        scaled_add_operator(), tensors, counts, values, allocate, this, nullptr, nullptr};
    const int32_t code = pto_operator_run(&call);
    if (code == 0) result.pop_back();
    return code;
  }
};

TEST(Operator, describes_itself_in_plain_c) {
  const pto_operator* op = scaled_add_operator();
  EXPECT_STREQ(op->name, "scaled_add");
  EXPECT_EQ(op->n_arguments, 5);
  EXPECT_EQ(op->n_tensors, 2);
  EXPECT_EQ(op->n_outputs, 1);
  EXPECT_EQ(op->gradient, -1);
  EXPECT_EQ(op->arguments[1].flags, uint32_t{PTO_ARGUMENT_OPTIONAL});
  EXPECT_EQ(op->arguments[2].flags, uint32_t{PTO_ARGUMENT_KEYWORD_ONLY});
  EXPECT_EQ(op->arguments[2].default_value->real, 2.0);
  EXPECT_EQ(pto_operator_find("scaled_add"), op);
  EXPECT_EQ(pto_operator_find("unheard_of"), nullptr);
  EXPECT_EQ(pto_operator_at(pto_operator_count()), nullptr);
  EXPECT_EQ(pto_operator_at(-1), nullptr);
}

TEST(Operator, gives_a_kernel_elements_at_multiples_of_their_size) {
  std::array<std::array<char, 3 * sizeof(float) + 1>, 3> bytes;  // x, y and the result
  const float numbers[] = {1, 2, 3}, wanted[] = {3, 6, 9};
  const int64_t size = 3;
  pto_tensor_ref tensors[2];
  for (size_t i = 0; i < 2; ++i) {
    std::memcpy(&bytes[i][1], numbers, sizeof(numbers));
    tensors[i] = {&bytes[i][1], &size, nullptr, 1, static_cast<int32_t>(DType::F32)};
  }
  const int32_t counts[] = {1, 1};
  pto_operator_value values[3] = {};
  values[0].real = 2;
  values[1].text = "a", values[1].count = 1;
  values[2].integer = 1;
  const auto allocate = [](void* user, int32_t, int32_t, const int64_t*, int32_t,
                           int32_t) -> void* { return user; };
  const pto_operator_call call = {scaled_add_operator(), tensors, counts, values, allocate,
                                  &bytes[2][1],          nullptr, nullptr};
  ASSERT_EQ(pto_operator_run(&call), 0) << pto_operator_error();
  EXPECT_EQ(std::memcmp(&bytes[2][1], wanted, sizeof(wanted)), 0);
}

TEST(Operator, runs_and_allocates_through_the_caller) {
  Vectors call{.x = {1, 2, 3}, .y = {10, 20, 30}};
  ASSERT_EQ(call.run(), 0) << pto_operator_error();
  EXPECT_THAT(call.result, ElementsAre(21, 42, 63));
}

TEST(Operator, takes_empty_tensors) {
  Vectors call{.x = {}, .y = {}};
  ASSERT_EQ(call.run(), 0) << pto_operator_error();
  EXPECT_TRUE(call.result.empty());
}

TEST(Operator, compiles_once_for_all_sizes_and_float_attributes_but_again_for_a_string) {
  Vectors call{.x = {1, 2}, .y = {1, 2}, .mode = "only here"};
  ASSERT_EQ(call.run(), 0);
  const int before = compilations;
  call.factor = 3;
  call.x = call.y = {1, 2, 3};
  ASSERT_EQ(call.run(), 0);
  EXPECT_THAT(call.result, ElementsAre(4, 8, 12));
  EXPECT_EQ(compilations, before);
  call.mode = "another";
  ASSERT_EQ(call.run(), 0);
  EXPECT_EQ(compilations, before + 1);
}

TEST(Operator, tells_an_absent_tensor_from_a_given_one) {
  Vectors call{.x = {1}, .y = {1}, .has_y = false};
  EXPECT_NE(call.run(), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("scaled_add needs y"));
}

TEST(Operator, reports_sizes_that_do_not_fit) {
  Vectors call{.x = {1, 2, 3}, .y = {1, 2}};
  EXPECT_NE(call.run(), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("axis 0 of y has size 2, but 3 is required"));
}

TEST(Operator, compiles_once_when_many_threads_call_first) {
  const int before = compilations;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Vectors call{.x = {1, 2}, .y = {3, 4}, .mode = "many threads"};
      failures += call.run() != 0 || call.result != std::vector<float>{7, 10};
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(compilations, before + 1);
}

TEST(Registry, gives_an_operator_its_gradient) {
  const OperatorDefinition second = {
      .schema =
          "with_gradient_backward_backward(Tensor d_a, Tensor d_b, Tensor g, Tensor w, *, "
          "int needs, int needs_=-1) -> (Tensor)"};
  const OperatorDefinition first = {.schema =
                                        "with_gradient_backward(Tensor g, Tensor w, *, "
                                        "int needs=-1) -> (Tensor, Tensor)",
                                    .gradient = std::make_shared<const OperatorDefinition>(second),
                                    .saved = {0, 1},
                                    .wanted = {0}};
  const int index = define_operator({.schema = "with_gradient(Tensor x, Tensor w) -> Tensor",
                                     .gradient = std::make_shared<const OperatorDefinition>(first),
                                     .saved = {1},
                                     .wanted = {0, 1}});
  const pto_operator* op = pto_operator_at(index);
  ASSERT_EQ(op->gradient, index + 1);
  EXPECT_STREQ(pto_operator_at(op->gradient)->name, "with_gradient_backward");
  ASSERT_EQ(op->n_saved, 1);
  EXPECT_EQ(op->saved[0], 1);
  ASSERT_EQ(op->n_wanted, 2);
  EXPECT_EQ(op->wanted[1], 1);
  EXPECT_EQ(pto_operator_at(op->gradient)->gradient, index + 2);
  EXPECT_EQ(pto_operator_at(index + 2)->gradient_of, index + 1);
  EXPECT_EQ(pto_operator_at(index + 2)->gradient, -1);
}

void expect_refused(const std::string& schema, const std::string& message) {
  try {
    define_operator({.schema = schema});
    FAIL() << "accepted: " << schema;
  } catch (const Error& error) {
    EXPECT_THAT(error.text().what, HasSubstr(message));
  }
}

TEST(Registry, refuses_a_name_that_is_taken) {
  scaled_add_operator();
  expect_refused("scaled_add(Tensor x) -> Tensor",
                 "operator scaled_add: is defined already, as "
                 "scaled_add(Tensor x, Tensor? y, *");
}

TEST(Registry, a_freed_name_is_another_operators_and_the_first_goes_on) {
  const int first = define_operator({.schema = "freed(Tensor x) -> Tensor"});
  expect_refused("freed(Tensor x, Tensor y) -> Tensor", "operator freed: is defined already");
  free_operator_name(first);
  EXPECT_EQ(pto_operator_find("freed"), nullptr);
  const int second = define_operator({.schema = "freed(Tensor x, Tensor y) -> Tensor"});
  EXPECT_EQ(pto_operator_find("freed"), pto_operator_at(second));
  EXPECT_EQ(pto_operator_at(first)->name[0], '_');  // no framework is told of it
  EXPECT_EQ(pto_operator_at(first)->n_tensors, 1);
  EXPECT_EQ(operator_at(first).schema.name, "freed");
}

TEST(Registry, refuses_an_operator_without_tensors) {
  expect_refused("nothing(int n) -> Tensor", "nothing: takes 0 tensors and 1 attributes");
}

}  // namespace pto::registry_test
