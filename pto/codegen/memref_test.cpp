// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/memref.hpp"

#include <gtest/gtest.h>

namespace pto::memref_test {

// Prints the strides of another shape of the same elements; "copy" where there is none.
std::string strides_of(const MemRef& from, const Dims& shape) {
  const std::optional<MemRef> to = reshaped(from, shape);
  if (!to) return "copy";
  std::string all;
  for (const std::string& stride : to->strides) all += "[" + stride + "] ";
  const auto [first, last] = to->gaps;
  return all + (last == 0 ? "" : "gaps " + std::to_string(first) + " to " + std::to_string(last));
}

const Dim kRows = Dim::symbol(0);

TEST(MemRef, AxesOfAPartAreCutWithoutACopy) {
  const MemRef whole = dense_memref("p", {DType::F32, {kRows, 8, 6}});
  const MemRef part = part_of(whole, {"0", "1", "0"}, {kRows, 1, 6});
  EXPECT_EQ(strides_of(part, {kRows, 1, 3, 2}), "[48] [0] [2] [1] gaps 2 to 2");
  EXPECT_EQ(strides_of(part, {kRows, 6}), "[48] [1] gaps 1 to 1");
  EXPECT_EQ(strides_of(part, {floordiv(kRows, 2), 2, 6}), "copy") << "s0 may be odd";
  EXPECT_EQ(strides_of(part, {kRows * 6}), "copy") << "rows have gaps";
}

TEST(MemRef, AxesThatLieAsOneJoinWithoutACopy) {
  const MemRef whole = dense_memref("p", {DType::F32, {4, 8, 6}});
  const MemRef columns = part_of(whole, {"0", "0", "2"}, {4, 8, 1});
  EXPECT_EQ(strides_of(columns, {32}), "[6] ");
  EXPECT_EQ(strides_of(columns, {2, 16, 1}), "[96] [6] [1] ");
  EXPECT_EQ(strides_of(transposed(whole, {1, 0, 2}), {32, 6}), "copy");
  EXPECT_EQ(strides_of(transposed(whole, {2, 0, 1}), {6, 32}), "[1] [6] gaps 1 to 1");
}

TEST(MemRef, ARepeatedElementKeepsItsStride) {
  const MemRef row = dense_memref("p", {DType::F32, {1, 6}});
  EXPECT_EQ(strides_of(broadcast_to(row, {4, 6}), {2, 2, 6}), "[0] [0] [1] gaps 2 to 2");
  EXPECT_EQ(strides_of(broadcast_to(row, {4, 6}), {24}), "copy");
}

TEST(MemRef, SizesThatAreEqualAtTheCallMayBeSpelledInTwoWays) {
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1), s2 = Dim::symbol(2), s3 = Dim::symbol(3);
  const MemRef whole = dense_memref("p", {DType::F32, {s0, 3, s1}});
  const MemRef part = with_shape(part_of(whole, {"0", "1", "0"}, {s0, 1, s1}), {s2, s3});
  EXPECT_EQ(part.strides, (std::vector<std::string>{"3 * s1", "1"}));
  EXPECT_EQ(part.type.shape, (Dims{s2, s3}));
}

TEST(MemRef, StridesBeyondAnIntAreNumbers) {
  const MemRef whole = dense_memref("p", {DType::U8, {2, 65536, 32768}});
  EXPECT_EQ(whole.strides[0], "2147483648");
  EXPECT_EQ(part_of(whole, {"1", "0", "0"}, {1, 1, 1}).data, "p + 2147483648");
}

TEST(MemRef, AxesOfOpenSizesStayOneInAnotherShape) {
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1), s2 = Dim::symbol(2);
  const MemRef whole = dense_memref("p", {DType::F32, {s0, s1 * 2, s2}});
  const MemRef part = part_of(whole, {"0", "0", "0"}, {s0, s1, s2}, {1, 2, 1});
  EXPECT_EQ(strides_of(part, {s0, 1, s1, s2}), "[(s1 * 2) * s2] [0] [2 * s2] [1] gaps 3 to 3");
  EXPECT_EQ(strides_of(part, {s0 * s1, s2}), "[2 * s2] [1] gaps 1 to 1");
}

}  // namespace pto::memref_test
