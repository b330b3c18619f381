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
