// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"

namespace pto::verify_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string what_of(const char* text) {
  try {
    verify(parse(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Verify, asks_for_a_guard_where_sizes_are_taken_as_equal) {
  const std::string head =
      "graph g(%x: f32[s0], %y: f32[s1], %z: f32[s2]) -> (f32[s0]) {\n"
      "  %0 = broadcast(%z) : f32[s0]\n";
  EXPECT_THAT(what_of((head + "return %0 }").c_str()),
              AllOf(HasSubstr("graph \"g\", node 3 (broadcast : f32[s0])"),
                    HasSubstr("why: sizes s2 and s0 are equal or have a guard")));
  EXPECT_EQ(what_of((head + "guard s0 == s2 because \"add\" return %0 }").c_str()), "no error");
  EXPECT_EQ(what_of((head + "guard s0 == s1 because \"add\" guard s2 == s1 because \"add\" "
                            "return %0 }")
                        .c_str()),
            "no error")
      << "equality passes from guard to guard";
}

TEST(Verify, asks_for_the_number_of_elements_of_a_reshape) {
  EXPECT_THAT(what_of("graph g(%x: f32[s0]) -> (f32[s1]) { %0 = reshape(%x) : f32[s1] return %0 }"),
              HasSubstr("keeps the number of elements"));
  EXPECT_EQ(what_of("graph g(%x: f32[s0, s1]) -> (f32[s1*s0]) {\n"
                    "  %0 = reshape(%x) : f32[s1*s0] return %0 }"),
            "no error");
}

TEST(Verify, asks_for_the_contraction_of_a_matmul) {
  EXPECT_THAT(what_of("graph g(%x: f32[2, s0], %y: f32[s1, 3]) -> (f32[2, 3]) {\n"
                      "  %0 = matmul(%x, %y) : f32[2, 3] return %0 }"),
              HasSubstr("the contraction sizes are equal or have a guard"));
}

TEST(Verify, looks_into_bodies_where_outer_guards_hold) {
  const std::string body =
      "graph body(%a: f32[s0], %b: f32[s1]) -> (f32[s0]) {\n"
      "    %0 = broadcast(%b) : f32[s0]\n    return %0 } : f32[s0]\n";
  const std::string head =
      "graph g(%x: f32[s0], %y: f32[s1]) -> (f32[s0]) {\n  %0 = fused(%x, %y) ";
  EXPECT_THAT(what_of((head + body + "return %0 }").c_str()),
              HasSubstr("graph \"body\", node 2 (broadcast : f32[s0])"));
  EXPECT_EQ(what_of((head + body + "guard s1 == s0 because \"add\" return %0 }").c_str()),
            "no error");
}

TEST(Verify, gives_scalars_of_a_body_only_scalars) {
  EXPECT_THAT(what_of("graph g(%x: f32[]) -> (f32[]) {\n"
                      "  %0 = fused(%x) graph b(%k: scalar f32) -> (f32[]) { return %k } : f32[]\n"
                      "  return %0 }"),
              HasSubstr("a scalar input of a body takes a scalar of the graph"));
}

TEST(EqualSizes, have_one_representative) {
  const Dim s0 = Dim::symbol(0), s1 = Dim::symbol(1), s2 = Dim::symbol(2);
  const EqualSizes equal({{{s2, s1, "a"}, {}}, {{s0, s2, "b"}, {}}, {{s0 * 2, 8, "c"}, {}}});
  EXPECT_EQ(equal.representative(s2), s0);
  EXPECT_TRUE(equal(s1, s0));
  EXPECT_EQ(equal.representative(s0 * 2), Dim(8));
  EXPECT_FALSE(equal(s0, Dim::symbol(3)));
}

}  // namespace pto::verify_test
