// SPDX-License-Identifier: Apache-2.0
#include "pto/base/evaluate_sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "pto/base/dims.hpp"
#include "pto/base/error.hpp"

namespace pto::evaluate_sizes_test {

using ::testing::HasSubstr;
using Size = PartialSize<std::string>;

// s0, 3 and `op` of them.
pto_shapes shapes_of(pto_dim (&dims)[3], int32_t op) {
  dims[0] = {PTO_DIM_SYMBOL, 0, 0, 0};
  dims[1] = {PTO_DIM_CONSTANT, 0, 0, 3};
  dims[2] = {op, 0, 1, 0};
  return {1, 3, 0, 0, dims, nullptr, nullptr, nullptr};
}

// Returns the reason of a refusal, or "" and the values.
template <class Rules, class Number>
std::string evaluated(const pto_shapes& shapes, const std::vector<Number>& symbols,
                      std::vector<Number>* sizes) {
  Rules rules(shapes);
  try {
    *sizes = evaluate_sizes(shapes, symbols, rules);
    return "";
  } catch (const SizeRefusal& refusal) {
    EXPECT_FALSE(refusal.why.empty() || refusal.fix.empty());
    return refusal.what;
  }
}

// A random program of `count` steps over two symbols, and the same as expressions.
std::vector<pto_dim> random_steps(std::mt19937& random, int count, std::vector<Dim>* expressions) {
  std::vector<pto_dim> steps;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t value = int64_t(random() % 7) - 1;
    if (i < 2) {
      steps.push_back({PTO_DIM_SYMBOL, 0, 0, i});
      expressions->push_back(Dim::symbol(i));
    } else if (i < 4) {
      steps.push_back({PTO_DIM_CONSTANT, 0, 0, value});
      expressions->push_back(value);
    } else {
      const auto op = int32_t(PTO_DIM_ADD + random() % 8);
      const auto left = int32_t(random() % uint32_t(i)), right = int32_t(random() % uint32_t(i));
      steps.push_back({op, left, right, 0});
      const auto& all = *expressions;
      expressions->push_back(
          Dim::make(DimOp(op), all[size_t(left)], all[size_t(right)]));  // may throw
    }
  }
  return steps;
}

TEST(EvaluateSizes, known_sizes_are_the_values_of_the_expressions) {
  std::mt19937 random(7);
  int compared = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Dim> expressions;
    std::vector<pto_dim> steps;
    try {
      steps = random_steps(random, 12, &expressions);
    } catch (const Error&) {
      continue;  // a constant part has no value
    }
    const pto_shapes shapes{2, 12, 0, 0, steps.data(), nullptr, nullptr, nullptr};
    const std::vector<int64_t> symbols{int64_t(random() % 5), int64_t(random() % 5)};
    std::vector<int64_t> sizes;
    if (!evaluated<KnownSizes>(shapes, symbols, &sizes).empty()) continue;
    for (size_t i = 0; i < sizes.size(); ++i)
      ASSERT_EQ(sizes[i], evaluate(expressions[i], symbols)) << text(expressions[i]);
    ++compared;
  }
  EXPECT_GT(compared, 500);
}

TEST(EvaluateSizes, what_is_known_of_partial_sizes_holds_for_every_value_of_the_unknown_ones) {
  std::mt19937 random(11);
  int known = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Dim> expressions;
    std::vector<pto_dim> steps;
    try {
      steps = random_steps(random, 10, &expressions);
    } catch (const Error&) {
      continue;
    }
    const pto_shapes shapes{2, 10, 0, 0, steps.data(), nullptr, nullptr, nullptr};
    std::vector<Size> partial;
    const auto of_first = int64_t(random() % 5);
    const std::string wrong = evaluated<PartialSizes<std::string>>(
        shapes, std::vector{Size::number(of_first), Size::unknown("n")}, &partial);
    for (int64_t n = 0; n < 6; ++n) {
      std::vector<int64_t> sizes;
      const bool has_value =
          evaluated<KnownSizes>(shapes, std::vector{of_first, n}, &sizes).empty();
      ASSERT_FALSE(has_value && !wrong.empty()) << wrong;
      refused += !wrong.empty();
      for (size_t i = 0; wrong.empty() && has_value && i < sizes.size(); ++i) {
        const bool is_n = !partial[i].is_known && partial[i].name == "n";
        const int64_t expected = partial[i].is_known ? partial[i].value : is_n ? n : sizes[i];
        ASSERT_EQ(sizes[i], expected) << text(expressions[i]);
        known += partial[i].is_known;
      }
    }
  }
  EXPECT_GT(known, 1000);
  EXPECT_GT(refused, 100);
}

TEST(EvaluateSizes, a_step_without_a_value_is_refused_with_expression_and_operands) {
  struct Case {
    int32_t op;
    int64_t symbol;
    const char* text;
  };
  for (const Case& one : std::initializer_list<Case>{
           {PTO_DIM_MUL, INT64_MAX,
            "the size s0*3 leaves 64 bits: its operands are 9223372036854775807 and 3"},
           {PTO_DIM_ADD, INT64_MAX, "the size s0+3 leaves 64 bits"},
           {PTO_DIM_BROADCAST, 2, "sizes 2 and 3 differ in broadcasting"}}) {
    pto_dim dims[3];
    std::vector<int64_t> sizes;
    EXPECT_THAT(evaluated<KnownSizes>(shapes_of(dims, one.op), std::vector{one.symbol}, &sizes),
                HasSubstr(one.text));
  }
  for (const int32_t op : {PTO_DIM_FLOORDIV, PTO_DIM_MOD}) {
    pto_dim dims[3];
    pto_shapes shapes = shapes_of(dims, op);
    dims[1].value = 0;
    std::vector<int64_t> sizes;
    std::vector<Size> partial;
    EXPECT_THAT(evaluated<KnownSizes>(shapes, std::vector<int64_t>{6}, &sizes),
                HasSubstr("divides by zero: its operands are 6 and 0"));
    EXPECT_THAT(
        evaluated<PartialSizes<std::string>>(shapes, std::vector{Size::unknown()}, &partial),
        HasSubstr("divides by zero"));
  }
}

TEST(EvaluateSizes, guards_say_what_sizes_that_differ_mean) {
  pto_dim dims[3];
  pto_shapes shapes = shapes_of(dims, PTO_DIM_MIN);
  std::vector<int64_t> sizes;
  pto_shape_guard guard{0, 1, PTO_GUARD_EQUAL, "add"};
  shapes.n_guards = 1;
  shapes.guards = &guard;
  EXPECT_EQ(evaluated<KnownSizes>(shapes, std::vector<int64_t>{3}, &sizes), "");
  EXPECT_EQ(evaluated<KnownSizes>(shapes, std::vector<int64_t>{4}, &sizes),
            "sizes 4 and 3 differ in add");
  guard = {0, 1, PTO_GUARD_NONEMPTY, "amax"};
  EXPECT_EQ(evaluated<KnownSizes>(shapes, std::vector<int64_t>{0}, &sizes),
            "amax over an axis of size 0");
  guard = {0, 1, PTO_GUARD_HOLDS, "n is small"};
  EXPECT_EQ(evaluated<KnownSizes>(shapes, std::vector<int64_t>{4}, &sizes),
            "check: not true of 4 elements: n is small");
  std::vector<Size> partial;
  EXPECT_EQ(evaluated<PartialSizes<std::string>>(shapes, std::vector{Size::unknown()}, &partial),
            "");
}

}  // namespace pto::evaluate_sizes_test
