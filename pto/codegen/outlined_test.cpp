// SPDX-License-Identifier: Apache-2.0
// Statements as functions: equal ones have equal texts.
#include "pto/codegen/outlined.hpp"

#include <gtest/gtest.h>

namespace pto::outlined_test {

std::string type_of(const std::string& name) {
  return name == "n" ? "const int64_t" : name == "v3" || name == "b1" ? "const float" : "";
}

TEST(Outlined, numbers_names_in_the_order_of_their_first_use) {
  const Outlined one =
      outlined("auto v7 = v3 * 0x1p-1f + b1; r9 = v7w + p4_2 + own(v3, n);", type_of);
  EXPECT_EQ(one.text, "auto v0 = v1 * 0x1p-1f + b0; r0 = v2 + p0 + own(v1, n);");
  EXPECT_EQ(one.parameters, "const float v1, const float b0, const int64_t n");
  EXPECT_EQ(one.arguments, "v3, b1, n");
}

TEST(Outlined, is_equal_where_only_numbers_differ) {
  const auto text = [](const char* statements) { return outlined(statements, type_of).text; };
  EXPECT_EQ(text("v8 = a2 + v1; mask32 x"), text("v3 = a1 + v2; mask32 x"));
  EXPECT_NE(text("v8 = a2 + v1;"), text("v3 = a1 + v3;"));
  EXPECT_NE(text("v8 = mask32;"), text("v8 = mask64;"));
}

}  // namespace pto::outlined_test
