// SPDX-License-Identifier: Apache-2.0
#include "pto/launch/signature.hpp"
#include "pto/abi/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pto::signature_test {

constexpr auto kF32 = static_cast<int32_t>(DType::F32);

StrideClass classify(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  return stride_class(sizes.data(), strides.data(), static_cast<int>(sizes.size()));
}

TEST(Signature, tells_dense_rows_and_any_strides_apart) {
  EXPECT_EQ(classify({}, {}), StrideClass::Contiguous);
  EXPECT_EQ(classify({2, 3}, {3, 1}), StrideClass::Contiguous);
  EXPECT_EQ(classify({2, 1, 3}, {3, 99, 1}), StrideClass::Contiguous);  // a size 1 needs no stride
  EXPECT_EQ(classify({0, 3}, {77, 5}), StrideClass::Contiguous);        // nothing to address
  EXPECT_EQ(classify({2, 3}, {4, 1}), StrideClass::Rows);
  EXPECT_EQ(classify({2, 3}, {0, 1}), StrideClass::Rows);
  EXPECT_EQ(classify({2, 3}, {-3, 1}), StrideClass::Rows);
  EXPECT_EQ(classify({2, 3}, {1, 2}), StrideClass::Any);
  EXPECT_EQ(classify({3}, {-1}), StrideClass::Any);
  EXPECT_EQ(classify({2, 3}, {3, 0}), StrideClass::Any);
}

TEST(Signature, a_word_says_dtype_rank_strides_and_ones) {
  const int64_t sizes[] = {4, 1, 7}, strides[] = {8, 8, 1};
  Signature signature;
  signature.add({nullptr, sizes, strides, 3, static_cast<int32_t>(DType::F64)});
  const TensorClass tensor = tensor_class(signature.words[0]);
  EXPECT_EQ(tensor.dtype, DType::F64);
  EXPECT_EQ(tensor.rank, 3);
  EXPECT_EQ(tensor.strides, StrideClass::Rows);
  int next = 2;
  EXPECT_EQ(text(tensor.symbolic_shape(&next)), "[s2, 1, s3]");
  EXPECT_EQ(next, 4);
}

TEST(Signature, sizes_apart_from_1_are_free) {
  const int64_t a[] = {4, 7}, b[] = {5, 9}, c[] = {1, 9};
  const int64_t of_a[] = {7, 1}, of_b[] = {9, 1};
  Signature first, second, third;
  first.add({nullptr, a, of_a, 2, kF32});
  second.add({nullptr, b, of_b, 2, kF32});
  third.add({nullptr, c, of_b, 2, kF32});
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.hash(), second.hash());
  EXPECT_FALSE(first == third);
}

TEST(Signature, refuses_too_many_tensors_or_dimensions) {
  const int64_t sizes[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  Signature signature;
  EXPECT_THROW(signature.add({nullptr, sizes, sizes, 9, kF32}), Error);
  for (int i = 0; i < PTO_MAX_TENSORS; ++i) {
    signature.add({nullptr, sizes, sizes, 1, kF32});
  }
  EXPECT_THROW(signature.add({nullptr, sizes, sizes, 1, kF32}), Error);
}

}  // namespace pto::signature_test
