// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/move_pads_late.hpp"

#include <gtest/gtest.h>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/verify.hpp"

namespace pto::move_pads_late_test {
namespace {

// A pad of %x: f32[4, 16] by a row of ones in front, and what reads it.
std::string pad_and(const std::string& reader, const std::string& type,
                    const std::string& inputs = "") {
  return "graph g(%x: f32[4, 16]" + inputs + ") -> (" + type +
         ") {\n"
         "  %0 = constant {value=1} : f32[]\n"
         "  %1 = broadcast(%0) : f32[5, 16]\n"
         "  %2 = constant {value=1} : i64[]\n"
         "  %3 = constant {value=0} : i64[]\n"
         "  %4 = update(%1, %x, %2, %3) : f32[5, 16]\n" +
         reader + "}\n";
}

// How often an operation stands in the graph behind the pass, which changes no bit.
int64_t count_of(const std::string& text, const std::string& operation) {
  const Graph before = parse(text), after = move_pads_late(before);
  verify(after);
  const std::vector<Array> inputs = random_inputs(before, 1);
  EXPECT_TRUE(same_bits(interpret(before, inputs)[0], interpret(after, inputs)[0])) << print(after);
  const std::string all = print(after);
  int64_t found = 0;
  for (size_t at = 0; (at = all.find(" " + operation + "(", at)) != std::string::npos; ++at)
    ++found;
  return found;
}

TEST(MovePadsLate, a_pad_is_its_border_joined_with_what_it_surrounds) {
  const std::string pad = pad_and("  return %4\n", "f32[5, 16]");
  EXPECT_EQ(count_of(pad, "update"), 0);
  EXPECT_EQ(count_of(pad, "concat"), 1);
}

TEST(MovePadsLate, what_reads_a_pad_is_computed_in_parts) {
  const std::string chain = pad_and(
      "  %5 = exp(%4) : f32[5, 16]\n"
      "  %6 = mul(%5, %y) : f32[5, 16]\n  return %6\n",
      "f32[5, 16]", ", %y: f32[5, 16]");
  EXPECT_EQ(count_of(chain, "exp"), 2);
  EXPECT_EQ(count_of(chain, "mul"), 2);
  EXPECT_EQ(count_of(chain, "view"), 2);
  EXPECT_EQ(count_of(chain, "concat"), 1);
}

TEST(MovePadsLate, a_view_cuts_the_parts) {
  const std::string shifted = pad_and(
      "  %5 = view(%4, %3, %3) : f32[4, 16]\n"
      "  %6 = sub(%x, %5) : f32[4, 16]\n  return %6\n",
      "f32[4, 16]");
  EXPECT_EQ(count_of(shifted, "sub"), 2);
  const std::string inner = pad_and(
      "  %5 = view(%4, %2, %3) : f32[3, 16]\n"
      "  %6 = exp(%5) : f32[3, 16]\n  return %6\n",
      "f32[3, 16]");
  EXPECT_EQ(count_of(inner, "broadcast"), 0);
  EXPECT_EQ(count_of(inner, "exp"), 1);
}

TEST(MovePadsLate, others_stay_as_they_are) {
  // Two readers.
  EXPECT_EQ(count_of(pad_and("  %5 = exp(%4) : f32[5, 16]\n  %6 = mul(%5, %4) : f32[5, 16]\n"
                             "  return %6\n",
                             "f32[5, 16]"),
                     "exp"),
            1);
  // Along with a value that another kernel may compute.
  EXPECT_EQ(count_of(pad_and("  %5 = exp(%y) : f32[5, 16]\n  %6 = mul(%4, %5) : f32[5, 16]\n"
                             "  return %6\n",
                             "f32[5, 16]", ", %y: f32[5, 16]"),
                     "mul"),
            1);
  // Elements in front of rows.
  EXPECT_EQ(count_of("graph g(%x: f32[4, 16]) -> (f32[4, 17]) {\n"
                     "  %0 = constant {value=1} : f32[]\n"
                     "  %1 = broadcast(%0) : f32[4, 17]\n"
                     "  %2 = constant {value=1} : i64[]\n"
                     "  %3 = constant {value=0} : i64[]\n"
                     "  %4 = update(%1, %x, %3, %2) : f32[4, 17]\n  return %4\n}\n",
                     "update"),
            1);
}

}  // namespace
}  // namespace pto::move_pads_late_test
