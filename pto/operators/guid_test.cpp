// SPDX-License-Identifier: Apache-2.0
// Tests guids: how a name finds its kernel, what a kernel gets, and outputs in the memory of
// inputs.
#include "pto/abi/guid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "pto/base/dtype.hpp"
#include "pto/operators/kernel_arguments.hpp"

namespace pto::guid_test {

using testing::ElementsAre;
using testing::HasSubstr;

// out[i] = x[n - 1 - i] * scalar + params[0]
int32_t reverse(const pto_args* args) {
  const KernelArguments in(args);
  const int64_t n = in.tensor(0).sizes[0];
  const float add = args->params_bytes ? *static_cast<const float*>(args->params) : 0;
  for (int64_t i = 0; i < n; ++i) {
    in.data<float>(1)[i] =
        in.data<const float>(0)[n - 1 - i] * static_cast<float>(in.real(0)) + add;
  }
  return 0;
}
PTO_GUID("guid_test_reverse_f32", reverse, 0)
PTO_GUID("guid_test_exact", reverse, 0)

int32_t stride_of_x(const pto_args* args) {
  const KernelArguments in(args);
  in.data<float>(1)[0] = static_cast<float>(in.tensor(0).strides[0]);
  return 0;
}
PTO_GUID("guid_test_dense", stride_of_x, 0)
PTO_GUID("guid_test_strided", stride_of_x, PTO_GUID_TAKES_STRIDES)

int32_t refuse(const pto_args* args) { return KernelArguments(args).fail("not this one"); }
PTO_GUID("guid_test_refuse", refuse, 0)

struct Call {
  std::vector<float> x = std::vector<float>(5);
  std::vector<float> out = std::vector<float>(5);
  int64_t size = 5, x_stride = 1, out_stride = 1;
  double scalar = 1;
  int64_t integer = 0;  // instead of `scalar`, where its kind says so
  uint8_t kind = PTO_NUMBER_ANY;
  std::vector<float> params = {};
  DType dtype = DType::F32;
  float* target = out.data();

  Call() { std::iota(x.begin(), x.end(), 1.0f); }

  std::string run(const char* guid) {
    const pto_tensor_ref tensors[] = {
        {x.data(), &size, &x_stride, 1, static_cast<int32_t>(dtype)},
        {target, &size, &out_stride, 1, static_cast<int32_t>(DType::F32)}};
    uint64_t slot = 0;
    __builtin_memcpy(&slot, &scalar, sizeof slot);
    if (kind == PTO_NUMBER_SIGNED) slot = static_cast<uint64_t>(integer);
    const auto bytes = static_cast<int64_t>(params.size() * sizeof(float));
    const pto_guid_call call{guid, "test", tensors, 1, 2, &slot, 1, params.data(), bytes, &kind};
    return pto_guid_run(&call) == 0 ? "" : pto_operator_error();
  }
};

TEST(Guid, a_name_is_looked_up_alone_and_then_with_the_type_of_the_first_tensor) {
  Call call;
  EXPECT_EQ(call.run("guid_test_reverse"), "");
  EXPECT_THAT(call.out, ElementsAre(5, 4, 3, 2, 1));
  EXPECT_EQ(call.run("guid_test_exact"), "");
  call.dtype = DType::F64;
  EXPECT_THAT(call.run("guid_test_reverse"),
              HasSubstr("there is no kernel guid_test_reverse, nor guid_test_reverse_f64"));
}

TEST(Guid, scalars_and_params_arrive_unchanged) {
  Call call;
  call.scalar = -2;
  call.params = {0.5f};
  EXPECT_EQ(call.run("guid_test_exact"), "");
  EXPECT_THAT(call.out, ElementsAre(-9.5, -7.5, -5.5, -3.5, -1.5));
}

TEST(Guid, scalars_are_compared_with_what_the_kernel_exports) {
  const pto_parameter parameters[] = {{1, 1, 2, 32}, {1, 0, 2, 32}, {0, 0, 2, 32}};
  const pto_signature signature = {"reverse", parameters, 3};
  pto_export_kernel(reverse, &signature);
  Call call;
  call.kind = PTO_NUMBER_SIGNED;
  call.integer = 2;
  EXPECT_EQ(call.run("guid_test_exact"), "");
  EXPECT_THAT(call.out, ElementsAre(10, 8, 6, 4, 2));
  call.integer = (1 << 24) + 1;
  EXPECT_THAT(call.run("guid_test_exact"),
              HasSubstr("test: guid_test_exact: scalar 0 is 16777217 (int64), its parameter is "
                        "f32\n  why: an integer"));
  call.kind = PTO_NUMBER_REAL;
  call.scalar = 1e39;
  EXPECT_THAT(call.run("guid_test_exact"), HasSubstr("the largest f32 is"));
  call.scalar = -1;
  EXPECT_EQ(call.run("guid_test_exact"), "");
  EXPECT_THAT(call.out, ElementsAre(-5, -4, -3, -2, -1));
  pto_export_kernel(reverse, nullptr);
}

TEST(Guid, a_tensor_with_gaps_is_copied_for_a_kernel_that_knows_no_strides) {
  Call call;
  call.size = 2;
  call.x_stride = 2;
  EXPECT_EQ(call.run("guid_test_dense"), "");
  EXPECT_EQ(call.out[0], 1);
  EXPECT_EQ(call.run("guid_test_strided"), "");
  EXPECT_EQ(call.out[0], 2);
  call.out = {0, 0, 0, 0, 0};
  call.out_stride = 3;
  EXPECT_EQ(call.run("guid_test_exact"), "");
  EXPECT_THAT(call.out, ElementsAre(3, 0, 0, 1, 0));
}

TEST(Guid, an_output_over_an_input_stands_aside) {
  Call call;
  call.target = call.x.data();
  EXPECT_EQ(call.run("guid_test_exact"), "");
  EXPECT_THAT(call.x, ElementsAre(5, 4, 3, 2, 1));
  call.size = 4;
  call.target = call.x.data() + 1;
  EXPECT_EQ(call.run("guid_test_exact"), "");
  EXPECT_THAT(call.x, ElementsAre(5, 2, 3, 4, 5));
}

TEST(Guid, what_a_kernel_says_names_the_caller) {
  EXPECT_THAT(Call().run("guid_test_refuse"), HasSubstr("test: guid_test_refuse: not this one"));
}

TEST(Guid, a_name_that_is_registered_twice_belongs_to_no_kernel) {
  EXPECT_EQ(pto_guid_register("guid_test_twice", reverse, 0), 0);
  EXPECT_EQ(Call().run("guid_test_twice"), "");
  EXPECT_NE(pto_guid_register("guid_test_twice", reverse, 0), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("guid guid_test_twice: is registered twice\n  why:"));
  EXPECT_THAT(Call().run("guid_test_twice"), HasSubstr("guid_test_twice is registered twice"));
  EXPECT_NE(pto_guid_register("", reverse, 0), 0);
  EXPECT_NE(pto_guid_register("guid_test_null", nullptr, 0), 0);
}

TEST(Guid, a_tensor_without_memory_is_refused) {
  Call call;
  call.target = nullptr;
  EXPECT_THAT(call.run("guid_test_exact"), HasSubstr("tensor 1 has no memory"));
}

TEST(Guid, a_rank_that_no_tensor_has_is_refused) {
  const int64_t sizes[PTO_MAX_RANK + 1] = {};
  float x = 0;
  for (const int32_t rank : {-1, PTO_MAX_RANK + 1}) {
    const pto_tensor_ref tensors[] = {{&x, sizes, sizes, rank, static_cast<int32_t>(DType::F32)},
                                      {&x, sizes, sizes, 1, static_cast<int32_t>(DType::F32)}};
    const pto_guid_call call{"guid_test_exact", "test", tensors, 1, 2,
                             nullptr,           0,      nullptr, 0, nullptr};
    EXPECT_NE(pto_guid_run(&call), 0);
    EXPECT_THAT(pto_operator_error(),
                HasSubstr("tensor 0 has " + std::to_string(rank) + " dimensions"));
  }
}

TEST(Guid, top_k_refuses_outputs_with_other_axes_than_its_input) {
  float x[] = {1, 3, 2, 6, 5, 4}, values[4];
  int64_t indices[4];
  const int64_t sizes[] = {2, 3}, strides[] = {3, 1};
  const int64_t out_sizes[] = {4, 2}, out_strides[] = {1, 1};  // the 2, k, is no size of one axis
  const pto_tensor_ref tensors[] = {
      {x, sizes, strides, 2, static_cast<int32_t>(DType::F32)},
      {values, out_sizes, out_strides, 1, static_cast<int32_t>(DType::F32)},
      {indices, out_sizes, out_strides, 1, static_cast<int32_t>(DType::I64)}};
  const uint32_t params[] = {2, 0, 0};  // k, axis, smallest
  const pto_guid_call call{"topk", "test", tensors,       1,      3, nullptr,
                           0,      params, sizeof params, nullptr};
  EXPECT_NE(pto_guid_run(&call), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("the sizes of its outputs do not fit"));
}

TEST(Guid, top_k_refuses_narrow_indices_of_an_axis_that_they_do_not_count) {
  float number = 0;
  int64_t index = 0;
  const int64_t strides[] = {1, 1}, out_sizes[] = {0, 2};
  const uint32_t params[] = {2, 0, 0};  // k, axis, smallest
  const auto run = [&](int64_t length, DType indices) {
    const int64_t sizes[] = {0, length};
    const pto_tensor_ref tensors[] = {
        {&number, sizes, strides, 2, static_cast<int32_t>(DType::F32)},
        {&number, out_sizes, strides, 2, static_cast<int32_t>(DType::F32)},
        {&index, out_sizes, strides, 2, static_cast<int32_t>(indices)}};
    const pto_guid_call call{"topk", "test", tensors,       1,      3, nullptr,
                             0,      params, sizeof params, nullptr};
    return pto_guid_run(&call);
  };
  EXPECT_EQ(run(8, DType::I32), 0) << pto_operator_error();
  EXPECT_NE(run((int64_t{1} << 31) + 1, DType::I32), 0);
  EXPECT_THAT(pto_operator_error(), HasSubstr("the indices are int32"));
}

}  // namespace pto::guid_test
