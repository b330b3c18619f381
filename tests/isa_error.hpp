// SPDX-License-Identifier: Apache-2.0
// The errors of launches and instructions as text: what happened, the rule, the remedy.
//
//     EXPECT_THAT(error_of([] { run_blocks(1, waits_for_nothing); }), HasSubstr("deadlock"));
//     EXPECT_ERROR(row.SetValidCol(65), "what", "why", "fix");   // the whole text
//
// Thread safety: that of the function.
#pragma once
#include <stdexcept>
#include <string>

// The text of the exception that f throws, or "no error".
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_ERROR(statement, what, why, fix) \
  EXPECT_EQ(error_of([&] { statement; }), what "\n  why: " why "\n  fix: " fix)
