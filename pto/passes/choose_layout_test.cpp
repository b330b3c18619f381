// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/choose_layout.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "pto/ir/interpret.hpp"
#include "pto/ir/parse.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/random_graph.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/turned_axes.hpp"

namespace pto::choose_layout_test {

std::string chosen(const std::string& lines, const std::string& returned) {
  const Graph before = parse("graph g(%x: f32[3, 4], %y: f32[4, 3], %r: f32[3]) -> (" + returned +
                             ") {\n" + lines + "\n}");
  const Graph after = choose_layout(before);
  const std::vector<Array> inputs = random_inputs(before, 1);
  const std::vector<Array> want = interpret(before, inputs), found = interpret(after, inputs);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(want[i], found[i])) << lines;
  std::string text;
  for (const Node& node : after.nodes())
    if (!node.is_parameter()) text += std::string(info(node.op).name) + " ";
  return text;
}

const std::string kSum =
    "  %0 = transpose(%x) {axes=[1, 0]} : f32[4, 3]\n  %1 = add(%0, %y) : f32[4, 3]\n";
const std::string kTurned = "  %2 = transpose(%1) {axes=[1, 0]} : f32[3, 4]\n";

TEST(ChooseLayout, turns_the_tensor_that_alone_lies_in_another_way) {
  EXPECT_EQ(chosen(kSum + kTurned + "  return %2", "f32[3, 4]"), "transpose add ");
  EXPECT_EQ(chosen(kSum + kTurned +
                       "  %3 = exp(%1) : f32[4, 3]\n"
                       "  %4 = transpose(%3) {axes=[1, 0]} : f32[3, 4]\n  return %2, %4",
                   "f32[3, 4], f32[3, 4]"),
            "transpose add exp ");
}

TEST(ChooseLayout, leaves_a_tree_that_no_other_order_serves_better) {
  EXPECT_EQ(chosen(kSum + "  return %1", "f32[4, 3]"), "transpose add ");
  EXPECT_EQ(chosen(kSum + kTurned + "  return %1, %2", "f32[4, 3], f32[3, 4]"),
            "transpose add transpose ");
}

TEST(ChooseLayout, turns_what_a_broadcast_repeats_and_not_what_it_makes) {
  EXPECT_EQ(chosen(kSum + "  %2 = broadcast(%r) : f32[4, 3]\n  %3 = mul(%1, %2) : f32[4, 3]\n"
                          "  %4 = transpose(%3) {axes=[1, 0]} : f32[3, 4]\n  return %4",
                   "f32[3, 4]"),
            "transpose add reshape broadcast mul ");
}

// A graph of element-wise operations on tensors of one shape, which lie in any order of axes.
class Tree {
 public:
  explicit Tree(uint64_t seed) : draw_(seed), b_("tree") {
    for (int i = 0; i < 4; ++i) values_.push_back(leaf(i));
    for (int i = 0; i < 5; ++i) values_.push_back(b_.binary(Opcode::sub, any(), any()));
    for (int i = 0; i < 2; ++i) b_.output(b_.transpose(any(), axes()));
    b_.output(values_.back());
  }
  Graph graph() { return b_.build(); }

 private:
  Axes axes() {
    Axes found = {0, 1, 2};
    if (draw_() % 3 != 0) std::shuffle(found.begin(), found.end(), draw_);
    return found;
  }
  Value any() { return values_[draw_() % values_.size()]; }
  Value leaf(int i) {
    const Axes order = axes();
    Dims shape(3, Dim(1));
    for (size_t k = 0; k < 3; ++k)
      if (i == 0 || draw_() % 6 != 0) shape[static_cast<size_t>(order[k])] = Dim::symbol(int(k));
    const Value x = b_.input("x" + std::to_string(i), DType::F32, shape);
    return b_.broadcast(b_.transpose(x, order), {Dim::symbol(0), Dim::symbol(1), Dim::symbol(2)});
  }

  std::mt19937_64 draw_;
  GraphBuilder b_;
  std::vector<Value> values_;
};

int turned(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes())
    count += !turning_axes(node).empty() && !keeps_order(node.type.shape, turning_axes(node));
  return count;
}

TEST(ChooseLayout, changes_no_bit_and_turns_less) {
  int less = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Graph before = Tree(seed).graph(), after = choose_layout(before);
    verify(after);
    const std::vector<Array> inputs = random_inputs(before, seed);
    const std::vector<Array> want = interpret(before, inputs), found = interpret(after, inputs);
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(same_bits(want[i], found[i])) << "seed " << seed << "\n" << print(before);
    less += turned(after) < turned(before);
  }
  EXPECT_GT(less, 20);
}

}  // namespace pto::choose_layout_test
