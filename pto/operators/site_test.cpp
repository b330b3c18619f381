// SPDX-License-Identifier: Apache-2.0
// Compares calls at a site with calls elsewhere, whatever the site remembers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/operators/registry.hpp"

namespace pto::site_test {

using testing::ElementsAre;
using testing::HasSubstr;

using Vector = std::vector<float>;
using Site =
    std::unique_ptr<pto_operator_site,
                    decltype([](pto_operator_site* site) { pto_operator_site_free(site); })>;

std::atomic<int> failing{0};

// Computes result[i] = x[i] + factor * x[size - 1 - i]; it reads all of x, so it is not
// elementwise.
int32_t mirror(const pto_args* args) {
  if (failing.load() != 0) return args->services->fail(args->services, "as the test asks");
  const pto_tensor& x = args->tensors[0];
  auto* result = static_cast<float*>(args->tensors[1].data);
  const auto factor = static_cast<float>(std::bit_cast<double>(args->scalars[0]));
  const auto at = [&x](int64_t i) { return static_cast<const float*>(x.data)[i * x.strides[0]]; };
  for (int64_t i = 0; i < x.sizes[0]; ++i) result[i] = at(i) + factor * at(x.sizes[0] - 1 - i);
  return 0;
}

// result = 2 x, element by element.
int32_t twice(const pto_args* args) {
  const pto_tensor& x = args->tensors[0];
  auto* result = static_cast<float*>(args->tensors[1].data);
  for (int64_t i = 0; i < x.sizes[0]; ++i) {
    result[i] = 2 * static_cast<const float*>(x.data)[i * x.strides[0]];
  }
  return 0;
}

std::shared_ptr<const Program> make_program(const KernelRequest& request) {
  const bool is_mirror = std::strcmp(pto_operator_at(request.op)->name, "site_mirror") == 0;
  const TensorClass x = tensor_class(request.signature.words[0]);
  if (x.rank != 1) fail({"site: x has another rank", "the test's kernels take vectors", "reshape"});
  const Dims shape = {Dim::symbol(0)};
  ProgramSpec spec;
  spec.name = "site";
  spec.inputs = {{"x", DType::F32, shape, x.strides}};
  spec.outputs = {{"result", DType::F32, shape, {}}};
  spec.scalars = {{"factor", DType::F64}};
  spec.launches = {{"site", {0, 1}, Dim::symbol(0), Dim(0), 1, !is_mirror}};
  const pto_kernel kernel = is_mirror ? mirror : twice;
  return std::make_shared<Program>(spec, std::vector<pto_kernel>{kernel}, nullptr);
}

const pto_operator* operator_named(const char* name) {
  static const int mirrors =
      define_operator({.schema = "site_mirror(Tensor x, *, float factor=1.0) -> Tensor"});
  static const int doubles =
      define_operator({.schema = "site_twice(Tensor x, *, float factor=1.0) -> Tensor"});
  set_providers({make_program, {}});
  return pto_operator_at(std::strcmp(name, "site_mirror") == 0 ? mirrors : doubles);
}

struct Call {
  const char* name = "site_mirror";
  Vector x = {};
  int64_t stride = 0;       // 0: not given
  float* memory = nullptr;  // of the result, where it is not fresh
  Vector result = {};

  int32_t run(pto_operator_site* site) {
    const int64_t step = stride == 0 ? 1 : std::abs(stride);
    const int64_t size = (static_cast<int64_t>(x.size()) + step - 1) / step;
    float* first = stride < 0 ? x.data() + (size - 1) * step : x.data();
    const pto_tensor_ref tensor = {first, &size, stride == 0 ? nullptr : &stride, 1,
                                   static_cast<int32_t>(DType::F32)};
    pto_operator_value factor = {};
    factor.real = 10;
    result.assign(static_cast<size_t>(size) + 1, -1);
    const auto allocate = [](void* user, int32_t, int32_t, const int64_t*, int32_t,
                             int32_t) -> void* {
      auto& self = *static_cast<Call*>(user);
      return self.memory ? self.memory : self.result.data();
    };
    const pto_operator_call call = {
        operator_named(name), &tensor, nullptr, &factor, allocate, this, nullptr, nullptr};
    const int32_t code = pto_operator_site_run(site, &call);
    if (code == 0) result.pop_back();
    return code;
  }
};

TEST(Site, gives_what_the_first_call_gave_for_more_sizes_than_it_remembers) {
  const Site site(pto_operator_site_new());
  for (int round = 0; round < 3; ++round) {
    for (size_t size = 0; size < 8; ++size) {
      Call call, elsewhere;
      for (size_t i = 0; i < size; ++i) call.x.push_back(static_cast<float>(i + 1));
      elsewhere.x = call.x;
      ASSERT_EQ(call.run(site.get()), 0) << pto_operator_error();
      ASSERT_EQ(elsewhere.run(nullptr), 0);
      EXPECT_EQ(call.result, elsewhere.result);
      EXPECT_EQ(call.result.size(), size);
    }
  }
}

TEST(Site, tells_strides_apart) {
  const Site site(pto_operator_site_new());
  for (int round = 0; round < 2; ++round) {
    Call dense{.x = {1, 2}}, steps{.x = {1, 9, 2, 9}, .stride = 2};
    Call backwards{.x = {1, 2}, .stride = -1}, said{.x = {1, 2}, .stride = 1};
    for (Call* call : {&dense, &steps, &said, &backwards}) ASSERT_EQ(call->run(site.get()), 0);
    EXPECT_THAT(dense.result, ElementsAre(21, 12));
    EXPECT_THAT(steps.result, ElementsAre(21, 12));
    EXPECT_THAT(said.result, ElementsAre(21, 12));
    EXPECT_THAT(backwards.result, ElementsAre(12, 21));
  }
}

TEST(Site, reads_an_input_before_a_result_replaces_it) {
  const Site site(pto_operator_site_new()), other(pto_operator_site_new());
  for (int round = 0; round < 2; ++round) {
    Call call{.x = {1, 2, 3}};
    call.memory = call.x.data();
    ASSERT_EQ(call.run(site.get()), 0) << pto_operator_error();
    EXPECT_THAT(call.x, ElementsAre(31, 22, 13));
    Call shifted{.name = "site_twice", .x = {1, 0, 2, 0, 3, 0}, .stride = 2};
    shifted.memory = shifted.x.data() + 1;
    ASSERT_EQ(shifted.run(other.get()), 0) << pto_operator_error();
    EXPECT_THAT(shifted.x, ElementsAre(1, 2, 4, 6, 3, 0));
    Call same{.name = "site_twice", .x = {1, 2, 3}};
    same.memory = same.x.data();
    ASSERT_EQ(same.run(other.get()), 0);
    EXPECT_THAT(same.x, ElementsAre(2, 4, 6));
  }
}

TEST(Site, reports_what_a_kernel_and_a_caller_refuse_each_time) {
  const Site site(pto_operator_site_new());
  Call call{.x = {1, 2}};
  for (int round = 0; round < 2; ++round) {
    failing = 1;
    EXPECT_NE(call.run(site.get()), 0);
    EXPECT_THAT(pto_operator_error(), HasSubstr("as the test asks"));
    failing = 0;
    ASSERT_EQ(call.run(site.get()), 0);
    EXPECT_THAT(call.result, ElementsAre(21, 12));
  }
}

TEST(Site, serves_many_threads_at_once) {
  const Site site(pto_operator_site_new());
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        Call call{.x = Vector(static_cast<size_t>(1 + (t + round) % 6), 1.0f)};
        failures += call.run(site.get()) != 0 || call.result != Vector(call.x.size(), 11.0f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace pto::site_test
