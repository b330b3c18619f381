// SPDX-License-Identifier: Apache-2.0
// TPRINT: the text that it writes.
#include "pto/isa/tile/print.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/isa_oracle.hpp"

namespace pto::print_test {
using namespace isa;

template <class Call>
std::string printed(Call call) {
  testing::internal::CaptureStdout();
  call();
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

template <class T>
std::string printed_pair(float a, float b) {
  Tile<TileType::Vec, T, 2, 64, BLayout::RowMajor, DYNAMIC, DYNAMIC> t(1, 2);
  t.SetElement(0, 0, T(a)), t.SetElement(0, 1, T(b));
  const std::string text = printed([&] { TPRINT(t); });
  EXPECT_NE(text.find(" tile, 1 x 2 valid of 2 x 64\n"), std::string::npos) << text;
  return text.substr(0, text.find(' ')) + text.substr(text.find('\n') + 1);
}

TEST(Print, writes_the_valid_region_with_its_type) {
  EXPECT_EQ(printed_pair<float>(1.5f, -2), "f32   1.5000  -2.0000\n");
  EXPECT_EQ(printed_pair<half>(1.5f, -2), "f16   1.5000  -2.0000\n");
  EXPECT_EQ(printed_pair<bfloat16_t>(1.5f, -2), "bf16   1.5000  -2.0000\n");
  EXPECT_EQ(printed_pair<int8_t>(7, -2), "i8        7       -2\n");
  EXPECT_EQ(printed_pair<uint8_t>(7, 200), "u8        7      200\n");
  EXPECT_EQ(printed_pair<int16_t>(7, -2), "i16        7       -2\n");
  EXPECT_EQ(printed_pair<uint16_t>(7, 2), "u16        7        2\n");
  EXPECT_EQ(printed_pair<int32_t>(7, -2), "i32        7       -2\n");
  EXPECT_EQ(printed_pair<uint32_t>(7, 2), "u32        7        2\n");
}

TEST(Print, takes_formats_long_rows_and_large_numbers) {
  Tile<TileType::Vec, float, 1, 512> t;
  for (int i = 0; i < 512; ++i) t.SetValue(i, i % 2 ? 3e38f : -INFINITY);
  const std::string text = printed([&] { TPRINT<PrintFormat::Width10_Precision6>(t, t); });
  size_t numbers = 0, longest = 0, start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    numbers += text.compare(i, 4, "-inf") == 0;
    if (text[i] == '\n') longest = std::max(longest, i - start), start = i;
  }
  EXPECT_EQ(numbers, 256u);
  EXPECT_LE(longest, 2048u);
  Tile<TileType::Vec, float, 1, 8> small;
  for (int i = 0; i < 8; ++i) small.SetValue(i, float(i) / 8);
  EXPECT_NE(printed([&] { TPRINT<PrintFormat::Width8_Precision2>(small); }).find("     0.12 "),
            std::string::npos);
}

TEST(Print, writes_views_of_memory) {
  const float values[] = {0, 1, 2, 3, 4, 5};
  using Rows = Shape<1, 1, 1, 2, 2>;
  using Pitch = Stride<1, 1, 1, 3, 1>;
  EXPECT_EQ(printed([&] { TPRINT(GlobalTensor(values, 2)); }),
            "f32 memory, 2 elements\n   0.0000   1.0000\n");
  EXPECT_EQ(printed([&] { TPRINT(GlobalTensor<const float, Rows, Pitch>(values)); }),
            "f32 memory, 1 x 1 x 1 x 2 x 2\n   0.0000   1.0000\n   3.0000   4.0000\n");
}

}  // namespace pto::print_test
