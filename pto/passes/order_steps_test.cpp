// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/order_steps.hpp"

#include <gtest/gtest.h>

#include <random>

namespace pto::order_steps_test {

using Order = std::vector<size_t>;

// Two chains, 0 -> 2 -> 4 and 1 -> 3, as stages have them.
TEST(OrderSteps, each_order_takes_another_chain_first) {
  const std::vector<Order> needs = {{}, {}, {0}, {1}, {2}};
  const std::vector<Value> place = {3, 0, 4, 1, 5};
  EXPECT_EQ(in_order(needs, place, StepOrder::Submitted), (Order{1, 3, 0, 2, 4}));
  EXPECT_EQ(in_order(needs, place, StepOrder::Depth), (Order{1, 3, 0, 2, 4}));
  EXPECT_EQ(in_order(needs, place, StepOrder::Longest), (Order{0, 1, 2, 3, 4}));
  EXPECT_EQ(in_order(needs, {0, 1, 2, 3, 4}, StepOrder::Submitted), (Order{0, 1, 2, 3, 4}));
  EXPECT_EQ(in_order(needs, {0, 1, 2, 3, 4}, StepOrder::Depth), (Order{1, 3, 0, 2, 4}));
}

TEST(OrderSteps, what_an_item_needs_stands_before_it) {
  std::mt19937 random(5);
  for (int test = 0; test < 300; ++test) {
    const size_t count = 1 + random() % 12;
    std::vector<Order> needs(count);
    std::vector<Value> place(count);
    for (size_t i = 0; i < count; ++i) {
      place[i] = static_cast<Value>(random() % 20);
      for (size_t k = 0; k < i; ++k)
        if (random() % 3 == 0) needs[i].push_back(k);
    }
    for (const StepOrder order : {StepOrder::Submitted, StepOrder::Depth, StepOrder::Longest}) {
      const Order found = in_order(needs, place, order);
      std::vector<size_t> at(count, count);
      for (size_t k = 0; k < found.size(); ++k) at[found[k]] = k;
      ASSERT_EQ(found.size(), count);
      for (size_t i = 0; i < count; ++i)
        for (const size_t need : needs[i]) EXPECT_LT(at[need], at[i]);
    }
  }
}

}  // namespace pto::order_steps_test
