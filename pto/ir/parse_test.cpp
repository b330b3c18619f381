// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"

namespace pto::parse_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kLoop =
    R"(graph g(%x: f32[s0, 3] @ "a b.py":7, %k: scalar i32, %"0": f32[]) -> (f32[s0, 3], f32[]) {
  %0 = constant {value=-0} : f32[]
  %1 = constant {value=0} : i64[]
  %2 = constant {value=0.10000000149011612} : f32[]
  %3 = constant {value=inf} : f32[] @ "a b.py":8 @ "c.py":9
  %4 = loop(%1, %1, %1, %x) graph "a body"(%i: i64[], %c: f32[s0, 3]) -> (f32[s0, 3]) {
    %0 = cast(%i) : f32[]
    %1 = broadcast(%0) : f32[s0, 3]
    %2 = add(%c, %1) : f32[s0, 3]
    return %2
  } : f32[s0, 3]
  %5 = result(%4) {index=0} : f32[s0, 3]
  %6 = transpose(%5) {axes=[1, 0]} : f32[3, s0]
  guard s0 == 3 because "add" @ "c.py":10
  return %5, %"0"
}
)";

std::string what_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Parse, reads_what_print_writes_to_the_letter) { EXPECT_EQ(print(parse(kLoop)), kLoop); }

TEST(Parse, takes_names_and_remarks_of_people) {
  const Graph g = parse(
      "# doubles\n"
      "graph twice(%x: f32[s0]) -> (f32[s0]) {  # here\n"
      "  %sum = add(%x, %x) : f32[s0]\n"
      "  return %sum }");
  EXPECT_EQ(g[1].op, Opcode::add);
  EXPECT_EQ(g.outputs().size(), 1u);
}

TEST(Parse, gives_a_line_and_a_column_for_every_truncation) {
  const std::string text = kLoop;
  for (size_t length = 0; length + 2 < text.size(); ++length)
    ASSERT_THAT(what_of(text.substr(0, length)), AllOf(HasSubstr("line "), HasSubstr(", column ")))
        << length;
}

// Replaces, removes or doubles every byte: the text gives a graph or an error with a place.
TEST(Parse, survives_every_small_mistake) {
  const std::string text = kLoop;
  for (size_t i = 0; i < text.size(); ++i)
    for (const char c : {'%', '(', '}', '9', '-', '"', 's', ' ', '\0', '\xff'}) {
      std::string replaced = text, removed = text, added = text;
      replaced[i] = c;
      removed.erase(i, 1);
      added.insert(i, 1, c);
      for (const std::string& broken : {replaced, removed, added}) {
        const std::string what = what_of(broken);
        ASSERT_TRUE(what == "no error" || what.find("line ") == 0) << what << broken;
      }
    }
}

struct Wrong {
  const char* text;
  const char* what;
};

class EachWrongText : public ::testing::TestWithParam<Wrong> {};

TEST_P(EachWrongText, is_refused_with_its_place) {
  const std::string head = "graph g(%x: f32[s0]) -> (f32[s0]) {\n";
  EXPECT_THAT(what_of(head + GetParam().text), HasSubstr(GetParam().what));
}

INSTANTIATE_TEST_SUITE_P(
    Parse, EachWrongText,
    ::testing::Values(
        Wrong{"  return %y\n}", "line 2, column 10: the value %y is not defined here"},
        Wrong{"  %0 = frobnicate(%x) : f32[s0]\n return %0 }",
              "line 2, column 8: \"frobnicate\" is no operation"},
        Wrong{"  %0 = input : f32[s0]\n return %0 }", "\"input\" is no operation"},
        Wrong{"  %0 = exp(%x) : f32[s1]\n return %0 }",
              "line 2, column 3: exp gives f32[s0] but the text says f32[s1]"},
        Wrong{"  %0 = exp(%x, %x) : f32[s0]\n return %0 }",
              "line 2, column 3: exp: has 2 operands"},
        Wrong{"  %0 = sum(%x) {axes=[1]} : f32[s0]\n return %0 }",
              "line 2, column 3: sum: axis 1 of a tensor of rank 1"},
        Wrong{"  %0 = bitwise_not(%x) : f32[s0]\n return %0 }", "bitwise_not: not defined on f32"},
        Wrong{"  %0 = exp(%x) : f32[s0]\n  %0 = log(%x) : f32[s0]\n return %0 }",
              "line 3, column 3: the value %0 is defined twice"},
        Wrong{"  %0 = constant {value=1.5} : i32[]\n return %x }",
              "line 2, column 24: the value \"1.5\" is not one of i32[]"},
        Wrong{"  %0 = constant {value=0.1} : f16[]\n return %x }",
              "constant: the value 0.1 is not a value of f16[]"},
        Wrong{"  return %x, %x\n}",
              "the returned values are (f32[s0], f32[s0]) but the first line"},
        Wrong{"  return %x\n} more", "line 3, column 3: expected the end of the text"},
        Wrong{"  guard 3 == 4 because \"add\"\n return %x }", "add: sizes 3 and 4 must be equal"},
        Wrong{"  %0 = exp(%x) : f32[s0] @ \"a.py\":4294967297\n return %0 }",
              "line 2, column 35: the line is 4294967297"},
        Wrong{"  %0 = cast(%x) : f33[s0]\n return %0 }",
              "line 2, column 19: expected an element type such as f32"}));

TEST(Parse, refuses_bottomless_nesting) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "graph g() -> () {\n %0 = fused() ";
  EXPECT_THAT(what_of(text), HasSubstr("fewer than 32 nested graphs"));
}

}  // namespace pto::parse_test
