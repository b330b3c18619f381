// SPDX-License-Identifier: Apache-2.0
#include "pto/base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pto::error_test {

using ::testing::HasSubstr;

TEST(Error, says_what_why_and_how_to_fix_it) {
  try {
    fail({"two is not three", "numbers are equal or not", "use three"}, ErrorKind::Index);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "two is not three\n  why: numbers are equal or not\n  fix: use three");
    EXPECT_EQ(error.kind(), ErrorKind::Index);
  }
}

TEST(Error, is_read_again_from_its_message) {
  const auto read = read_error_message("at a.py:3: two\n  why: one\nline\n  fix: three");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->what, "at a.py:3: two");
  EXPECT_EQ(read->why, "one\nline");
  EXPECT_EQ(read->fix, "three");
  EXPECT_EQ(error_message(*read), "at a.py:3: two\n  why: one\nline\n  fix: three");
  EXPECT_EQ(error_message("two", "", ""), "two");
  for (const char* other : {"", "two", "two\n  why: one", "two\n  fix: three\n  why: one"})
    EXPECT_FALSE(read_error_message(other)) << other;
}

TEST(Error, gets_its_location_once) {
  const Error error({"wrong", "", ""});
  EXPECT_STREQ(error.at("a.py:3").at("b.py:4").what(), "a.py:3: wrong");
  EXPECT_EQ(error.at("a.py:3").location(), "a.py:3");
  EXPECT_STREQ(error.at("").what(), "wrong");
}

TEST(Assertion, throws_with_its_place_in_every_build) {
  EXPECT_NO_THROW(PTO_ASSERT(1 + 1 == 2));
  try {
    PTO_ASSERT(1 + 1 == 3);
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 + 1 == 3 does not hold at "));
    EXPECT_THAT(error.what(), HasSubstr("error_test.cpp:"));
  }
}

}  // namespace pto::error_test
