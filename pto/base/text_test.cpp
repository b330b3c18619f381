// SPDX-License-Identifier: Apache-2.0
#include "pto/base/text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace pto::text_test {

TEST(Text, of_a_number_reads_back_to_the_same_bits) {
  for (const double x :
       {0.0, -0.0, 0.1, 1e300, 5e-324, -1.0 / 3, double(0.1f), double(INFINITY), -double(INFINITY)})
    EXPECT_EQ(std::bit_cast<uint64_t>(parse_double(text(x)).value()), std::bit_cast<uint64_t>(x));
  EXPECT_EQ(text(-0.0), "-0");
  EXPECT_EQ(text(-NAN), "nan");
  EXPECT_TRUE(std::isnan(parse_double("nan").value()));
}

TEST(Text, that_is_no_number_reads_as_nothing) {
  for (const char* wrong : {"", "x", "1x", " 1", "1.5 ", "0x"}) {
    EXPECT_FALSE(parse_double(wrong)) << wrong;
    EXPECT_FALSE(parse_int(wrong)) << wrong;
  }
  EXPECT_FALSE(parse_int("9223372036854775808"));
  EXPECT_EQ(parse_int("-9223372036854775808"), INT64_MIN);
}

TEST(Text, in_quotes_reads_back) {
  std::string all = "a \"b\" \\ \n\t ";
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  size_t position = 1;
  EXPECT_EQ(read_quoted("(" + in_quotes(all) + ")", position), all);
  EXPECT_EQ(position, in_quotes(all).size() + 1);
}

TEST(Text, in_broken_quotes_reads_as_nothing) {
  for (const char* wrong :
       {"", "a", "\"", "\"a", "\"\\\"", "\"\\q\"", "\"\\x1\"", "\"\\xg0\"", "\"\n\""}) {
    size_t position = 0;
    EXPECT_FALSE(read_quoted(wrong, position)) << wrong;
    EXPECT_EQ(position, 0u);
  }
}

}  // namespace pto::text_test
