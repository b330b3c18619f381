// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pto/ir/parse.hpp"

namespace pto::batch_test {

using ::testing::ElementsAre;
using ::testing::Optional;

// Maps `many`, with the batch axis s9, against `one`.
std::optional<std::vector<bool>> mapped(const char* many, const char* one,
                                        const std::vector<bool>& has_batch) {
  return map_batch(parse(many), parse(one), has_batch, Dim::symbol(9));
}

constexpr const char* kCentred =
    R"(graph g(%x: f32[s0, s1]) -> (f32[s0, s1]) {
  %0 = amax(%x) {axes=[1]} : f32[s0, 1]
  %1 = broadcast(%0) : f32[s0, s1]
  %2 = sub(%x, %1) : f32[s0, s1]
  return %2
})";

TEST(MapBatch, an_axis_that_moves_along_keeps_rows_apart) {
  EXPECT_THAT(mapped(R"(graph g(%x: f32[s9, s0, s1]) -> (f32[s9, s0, s1]) {
  %0 = amax(%x) {axes=[2]} : f32[s9, s0, 1]
  %1 = broadcast(%0) : f32[s9, s0, s1]
  %2 = sub(%x, %1) : f32[s9, s0, s1]
  return %2
})",
                     kCentred, {true}),
              Optional(ElementsAre(true)));
}

TEST(MapBatch, an_axis_that_stays_is_another_one) {
  EXPECT_EQ(mapped(R"(graph g(%x: f32[s9, s0, s1]) -> (f32[s9, s0, s1]) {
  %0 = amax(%x) {axes=[1]} : f32[s9, 1, s1]
  %1 = broadcast(%0) : f32[s9, s0, s1]
  %2 = sub(%x, %1) : f32[s9, s0, s1]
  return %2
})",
                   kCentred, {true}),
            std::nullopt);
}

TEST(MapBatch, a_reduction_over_the_batch_mixes_rows) {
  EXPECT_EQ(mapped(R"(graph g(%x: f32[s9, s0, s1]) -> (f32[s9, s0, s1]) {
  %0 = amax(%x) {axes=[0, 2]} : f32[1, s0, 1]
  %1 = broadcast(%0) : f32[s9, s0, s1]
  %2 = sub(%x, %1) : f32[s9, s0, s1]
  return %2
})",
                   kCentred, {true}),
            std::nullopt);
}

constexpr const char* kBias =
    R"(graph g(%x: f32[s0, s1], %w: f32[s1], %k: scalar f32) -> (f32[s0, s1], f32[s1]) {
  %0 = broadcast(%w) : f32[s0, s1]
  %1 = add(%x, %0) : f32[s0, s1]
  %2 = broadcast(%k) : f32[s1]
  %3 = mul(%w, %2) : f32[s1]
  return %1, %3
})";

TEST(MapBatch, what_has_no_batch_serves_all_rows_and_may_be_a_result) {
  EXPECT_THAT(mapped(R"(graph g(%x: f32[s9, s0, s1], %w: f32[s1], %k: scalar f32)
                       -> (f32[s9, s0, s1], f32[s1]) {
  %0 = broadcast(%w) : f32[s9, s0, s1]
  %1 = add(%x, %0) : f32[s9, s0, s1]
  %2 = broadcast(%k) : f32[s1]
  %3 = mul(%w, %2) : f32[s1]
  return %1, %3
})",
                     kBias, {true, false, false}),
              Optional(ElementsAre(true, false)));
}

TEST(MapBatch, a_batch_that_would_meet_another_axis_is_refused) {
  EXPECT_EQ(mapped(R"(graph g(%x: f32[s9, s0, s1], %w: f32[s9, s1], %k: scalar f32)
                       -> (f32[s9, s0, s1], f32[s9, s1]) {
  %0 = broadcast(%w) : f32[s9, s0, s1]
  %1 = add(%x, %0) : f32[s9, s0, s1]
  %2 = broadcast(%k) : f32[s9, s1]
  %3 = mul(%w, %2) : f32[s9, s1]
  guard s9 == s0 because "broadcast"
  return %1, %3
})",
                   kBias, {true, true, false}),
            std::nullopt);
}

TEST(MapBatch, an_operand_without_a_batch_is_repeated_for_all_rows) {
  const char* one = R"(graph g(%x: f32[s0], %y: f32[s0]) -> (f32[s0]) {
  %0 = sub(%x, %y) : f32[s0]
  return %0
})";
  EXPECT_THAT(mapped(R"(graph g(%x: f32[s9, s0], %y: f32[s0]) -> (f32[s9, s0]) {
  %0 = broadcast(%y) : f32[s9, s0]
  %1 = sub(%x, %0) : f32[s9, s0]
  return %1
})",
                     one, {true, false}),
              Optional(ElementsAre(true)));
  EXPECT_EQ(mapped(R"(graph g(%x: f32[s9, s0], %y: f32[s0]) -> (f32[s9, s0]) {
  %0 = broadcast(%y) : f32[s9, s0]
  %1 = sub(%0, %x) : f32[s9, s0]
  return %1
})",
                   one, {true, false}),
            std::nullopt)
      << "operands changed places";
}

TEST(MapBatch, moving_axes_and_elements_keeps_the_batch_in_front) {
  const char* one = R"(graph g(%x: f32[s0, 6]) -> (f32[6, s0], f32[s0, 2, 3]) {
  %0 = transpose(%x) {axes=[1, 0]} : f32[6, s0]
  %1 = reshape(%x) : f32[s0, 2, 3]
  return %0, %1
})";
  EXPECT_THAT(mapped(R"(graph g(%x: f32[s9, s0, 6]) -> (f32[s9, 6, s0], f32[s9, s0, 2, 3]) {
  %0 = transpose(%x) {axes=[0, 2, 1]} : f32[s9, 6, s0]
  %1 = reshape(%x) : f32[s9, s0, 2, 3]
  return %0, %1
})",
                     one, {true}),
              Optional(ElementsAre(true, true)));
}

TEST(MapBatch, positions_order_and_scans_along_an_axis_that_moves_along_keep_rows_apart) {
  const char* one = R"(graph g(%x: f32[s0, s1], %i: i64[s2, 1]) -> (f32[s2, s1], i64[s0, s1]) {
  %0 = gather(%x, %i) {axes=[0]} : f32[s2, s1]
  %1 = cumsum(%0) {axes=[1]} : f32[s2, s1]
  %2 = sort(%x) : f32[s0, s1]
  %3 = result(%2) {index=1} : i64[s0, s1]
  return %1, %3
})";
  const std::string good =
      R"(graph g(%x: f32[s9, s0, s1], %i: i64[s9, s2, 1]) -> (f32[s9, s2, s1], i64[s9, s0, s1]) {
  %0 = gather(%x, %i) {axes=[1]} : f32[s9, s2, s1]
  %1 = cumsum(%0) {axes=[2]} : f32[s9, s2, s1]
  %2 = sort(%x) : f32[s9, s0, s1]
  %3 = result(%2) {index=1} : i64[s9, s0, s1]
  return %1, %3
})";
  EXPECT_THAT(mapped(good.c_str(), one, {true, true}), Optional(ElementsAre(true, true)));
  std::string other = good;
  other.replace(other.find("{axes=[2]}"), 10, "{axes=[0]}");
  EXPECT_EQ(mapped(other.c_str(), one, {true, true}), std::nullopt) << "a sum over the batch";
}

TEST(MapBatch, other_numbers_types_and_guards_are_other_graphs) {
  const char* one = R"(graph g(%x: f32[s0], %y: f32[s1]) -> (f32[s0]) {
  %0 = constant {value=2} : f32[]
  %1 = broadcast(%0) : f32[s0]
  %2 = mul(%x, %1) : f32[s0]
  guard s0 == s1 because "add"
  return %2
})";
  const std::string good = R"(graph g(%x: f32[s9, s0], %y: f32[s1]) -> (f32[s9, s0]) {
  %0 = constant {value=2} : f32[]
  %1 = broadcast(%0) : f32[s9, s0]
  %2 = mul(%x, %1) : f32[s9, s0]
  guard s0 == s1 because "add"
  return %2
})";
  EXPECT_THAT(mapped(good.c_str(), one, {true, false}), Optional(ElementsAre(true)));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"value=2", "value=3"}, {"guard s0 == s1", "guard s9 == s1"}, {"mul(", "add("}}) {
    std::string other = good;
    other.replace(other.find(from), from.size(), to);
    EXPECT_EQ(mapped(other.c_str(), one, {true, false}), std::nullopt) << to;
  }
  EXPECT_EQ(mapped(good.c_str(), one, {false, false}), std::nullopt) << "x has the batch";
}

constexpr const char* kRowPlusMatrix =
    R"(graph g(%x: f32[s0], %y: f32[s1, s2]) -> (f32[s1, s2]) {
  %0 = broadcast(%x) : f32[s1, s2]
  %1 = add(%0, %y) : f32[s1, s2]
  guard s2 == s0 because "add"
  return %1
})";

TEST(MapBatch, axes_of_one_between_the_batch_and_the_row_change_nothing) {
  EXPECT_THAT(mapped(R"(graph g(%x: f32[s9, 1, s0], %y: f32[s9, s1, s2]) -> (f32[s9, s1, s0]) {
  %0 = broadcast(%x) : f32[s9, s1, s0]
  %1 = broadcast(%y) : f32[s9, s1, s0]
  %2 = add(%0, %1) : f32[s9, s1, s0]
  guard s0 == s2 because "add"
  return %2
})",
                     kRowPlusMatrix, {true, true}),
              Optional(ElementsAre(true)));
}

TEST(MapBatch, a_batch_that_meets_a_row_is_another_axis) {
  EXPECT_EQ(mapped(R"(graph g(%x: f32[s9, s0], %y: f32[s1, s2]) -> (f32[s9, s0]) {
  %0 = broadcast(%y) : f32[s9, s0]
  %1 = add(%x, %0) : f32[s9, s0]
  guard s2 == s0 because "add"
  guard s1 == s9 because "add"
  return %1
})",
                   kRowPlusMatrix, {true, false}),
            std::nullopt);
}

TEST(MapBatch, a_reduction_of_padding_is_one_of_the_axes_in_front) {
  const char* one = R"(graph g(%d: f32[s0, s1], %x: f32[s1]) -> (f32[s1]) {
  %0 = sum(%d) {axes=[0]} : f32[1, s1]
  %1 = reshape(%0) : f32[s1]
  %2 = mul(%1, %x) : f32[s1]
  return %2
})";
  EXPECT_THAT(mapped(R"(graph g(%d: f32[s9, s0, s1], %x: f32[s9, 1, s1]) -> (f32[s9, 1, s1]) {
  %0 = sum(%d) {axes=[1]} : f32[s9, 1, s1]
  %1 = mul(%0, %x) : f32[s9, 1, s1]
  return %1
})",
                     one, {true, true}),
              Optional(ElementsAre(true)));
  EXPECT_EQ(mapped(R"(graph g(%d: f32[s9, s0, s1], %x: f32[s1]) -> (f32[s1]) {
  %0 = sum(%d) {axes=[0, 1]} : f32[1, 1, s1]
  %1 = reshape(%0) : f32[s1]
  %2 = mul(%1, %x) : f32[s1]
  return %2
})",
                   one, {true, false}),
            std::nullopt)
      << "a sum over the batch";
}

}  // namespace pto::batch_test
