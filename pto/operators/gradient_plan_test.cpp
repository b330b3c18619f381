// SPDX-License-Identifier: Apache-2.0
// Tests that plans of gradient calls gather what the definition of a gradient operator names, on
// random operators and calls. Here a value is a list of tags, one a tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pto/operators/registry.hpp"
#include "tests/deep.hpp"

namespace pto::gradient_plan_test {

using Value = std::vector<int>;  // a list has any number of tensors, None has none
using Values = std::vector<Value>;

Value flat(const Values& values) {
  Value all;
  for (const Value& value : values) all.insert(all.end(), value.begin(), value.end());
  return all;
}

// An operator, a call of it, and what its gradient operator then is to get.
class Random {
 public:
  explicit Random(int seed) : random_(static_cast<unsigned>(seed)), name_(std::to_string(seed)) {
    for (int i = 0, count = below(5) + 1; i < count; ++i) add_tensor();
    for (int i = 0, count = below(3) + 1; i < count; ++i) add_output();
    choose_saved();
    for (int i = 0; i < static_cast<int>(arguments.size()); ++i) {
      const bool is_tensor = kinds_[static_cast<size_t>(i)] != "int";
      if (is_tensor && (below(2) || (wanted_.empty() && is_last_tensor(i)))) want(i);
    }
    define();
  }

  int below(int end) { return std::uniform_int_distribution(0, end - 1)(random_); }

  const pto_operator* op = nullptr;
  Values arguments, outputs, d_outputs;  // of the call; of an attribute nothing
  std::vector<int32_t> counts, output_counts;
  Values takes;                // of the gradient operator
  std::vector<int> wanted_by;  // for each argument the output of the gradient operator, or -1
  std::vector<bool> gives_lists;

  // The tag of the gradient of a tensor.
  static int gradient_of(int tag) { return tag + 1000; }

 private:
  Value tags(int count) {
    Value made;
    for (int i = 0; i < count; ++i) made.push_back(next_tag_++);
    return made;
  }

  void add_tensor() {
    const char* const kinds[] = {"Tensor", "Tensor?", "Tensor[]"};
    const int kind = below(3);
    kinds_.emplace_back(kinds[kind]);
    const int count = kind == 0 ? 1 : below(kind == 1 ? 2 : 4);
    arguments.push_back(tags(count));
    counts.push_back(count);
    wanted_by.push_back(-1);
    if (below(3) == 0)
      kinds_.emplace_back("int"), arguments.emplace_back(), wanted_by.push_back(-1);
  }

  void add_output() {
    const bool is_list = below(3) == 0, is_float = outputs.empty() || below(3) != 0;
    const int count = is_list ? below(4) : 1;
    results_.emplace_back(is_list ? "Tensor[]" : "Tensor");
    result_types_.emplace_back(is_float ? "T" : "i64");
    output_counts.push_back(count);
    outputs.push_back(tags(count));
    d_outputs.push_back(tags(count));
    if (is_float) takes.push_back(d_outputs.back()), gradient_takes_.push_back(results_.back());
  }

  void choose_saved() {
    for (size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i] != "int" && below(2)) save(static_cast<int>(i), arguments[i], kinds_[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (below(3) == 0) save(-1 - static_cast<int>(i), outputs[i], results_[i]);
    }
  }

  void save(int source, const Value& value, const std::string& kind) {
    saved_.push_back(source), takes.push_back(value), gradient_takes_.push_back(kind);
  }

  bool is_last_tensor(int argument) const {
    for (size_t i = static_cast<size_t>(argument) + 1; i < kinds_.size(); ++i) {
      if (kinds_[i] != "int") return false;
    }
    return true;
  }

  void want(int argument) {
    const bool is_list = kinds_[static_cast<size_t>(argument)] == "Tensor[]";
    wanted_by[static_cast<size_t>(argument)] = static_cast<int>(wanted_.size());
    wanted_.push_back(argument);
    gives_lists.push_back(is_list);
    gradient_gives_.emplace_back(is_list ? "Tensor[]" : "Tensor");
  }

  static std::string joined(const std::vector<std::string>& kinds, bool named) {
    std::string text;
    for (size_t i = 0; i < kinds.size(); ++i) {
      text += (i ? ", " : "") + kinds[i] + (named ? " a" + std::to_string(i) : "");
    }
    return "(" + text + ")";
  }

  void define() {
    std::vector<std::string> takes_all = gradient_takes_;
    for (const std::string& kind : kinds_) {
      if (kind == "int") takes_all.push_back(kind);
    }
    takes_all.emplace_back("int");
    const std::string backward = "plan_backward_" + name_;
    define_operator(
        {.schema = backward + joined(takes_all, true) + " -> " + joined(gradient_gives_, false)});
    std::vector<std::string> types;
    for (const std::string& kind : kinds_) {
      if (kind != "int") types.emplace_back("T");
    }
    op = pto_operator_at(define_operator(
        {.schema = "plan_" + name_ + joined(kinds_, true) + " -> " + joined(results_, false),
         .types = joined(types, false) + " -> " + joined(result_types_, false) + " where T: float",
         .gradient_name = backward,
         .saved = saved_,
         .wanted = wanted_}));
  }

  std::mt19937 random_;
  const std::string name_;
  int next_tag_ = 0;
  std::vector<std::string> kinds_, results_, result_types_, gradient_takes_, gradient_gives_;
  std::vector<int32_t> saved_, wanted_;
};

// The results of the gradient operator, by the rule of abi/operator.h for `needs`.
Values results_of(const Random& made, int64_t needs) {
  Values results(made.gives_lists.size());
  for (size_t i = 0; i < made.arguments.size(); ++i) {
    if (made.wanted_by[i] < 0) continue;
    const auto output = static_cast<size_t>(made.wanted_by[i]);
    const bool is_asked = needs >> output & 1;
    if (is_asked) {
      for (const int tag : made.arguments[i]) results[output].push_back(Random::gradient_of(tag));
    }
    if (!made.gives_lists[output] && results[output].empty()) results[output] = {-1};
  }
  return results;
}

void check_inputs(const Random& made, const pto_gradient_plan& plan) {
  const Value pool = flat({flat(made.d_outputs), flat(made.arguments), flat(made.outputs)});
  Value picked;
  for (int i = 0; i < plan.n_inputs; ++i) {
    picked.push_back(pool.at(static_cast<size_t>(plan.inputs[i])));
  }
  EXPECT_EQ(picked, flat(made.takes));
  for (size_t i = 0; i < made.takes.size(); ++i) {
    EXPECT_EQ(plan.counts[i], static_cast<int>(made.takes[i].size()));
  }
}

// Asks for the gradients of some tensors: each arrives where the plan says, and no list that
// nobody asked for is filled.
void check_results(Random& made, const pto_gradient_plan& plan) {
  const Value given = flat(made.arguments);
  ASSERT_EQ(plan.n_given, static_cast<int>(given.size()));
  std::set<int> asked;
  int64_t needs = 0;
  for (int i = 0; i < plan.n_given; ++i) {
    if (made.below(2) == 0) continue;
    asked.insert(i);
    if (plan.outputs[i] >= 0) needs |= int64_t{1} << plan.outputs[i];
  }
  const Values results = results_of(made, needs);
  const Value all = flat(results_of(made, plan.all_needs));
  int tensor = 0;
  for (size_t argument = 0; argument < made.arguments.size(); ++argument) {
    for (const int tag : made.arguments[argument]) {
      const int output = plan.outputs[tensor];
      EXPECT_EQ(output, made.wanted_by[argument]);
      if (output >= 0) {
        EXPECT_EQ(all.at(static_cast<size_t>(plan.places[tensor])), Random::gradient_of(tag));
      }
      if (output >= 0 && asked.count(tensor) != 0) {
        const Value& result = results.at(static_cast<size_t>(output));
        EXPECT_EQ(result.at(static_cast<size_t>(plan.members[tensor])), Random::gradient_of(tag));
      }
      ++tensor;
    }
  }
}

TEST(GradientPlan, gathers_what_the_gradient_operator_takes_for_random_operators) {
  for (int seed = 0; seed < rounds_of(400, 5000); ++seed) {
    Random made(seed);
    const pto_gradient_plan* plan =
        pto_operator_gradient_plan(made.op, made.counts.data(), made.output_counts.data());
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(plan->op, made.op->gradient);
    EXPECT_EQ(plan->has_lists != 0, std::ranges::count(made.gives_lists, true) > 0);
    check_inputs(made, *plan);
    check_results(made, *plan);
    if (HasFailure()) FAIL() << "seed " << seed << ": " << made.op->schema;
  }
}

TEST(GradientPlan, is_one_for_equal_counts_and_another_for_other_counts) {
  define_operator({.schema = "plan_sum_backward(Tensor d, Tensor[] xs, int needs) -> (Tensor[])"});
  const pto_operator* op =
      pto_operator_at(define_operator({.schema = "plan_sum(Tensor[] xs) -> Tensor",
                                       .gradient_name = "plan_sum_backward",
                                       .saved = {0},
                                       .wanted = {0}}));
  const int32_t one = 1, three = 3;
  const pto_gradient_plan* plan = pto_operator_gradient_plan(op, &three, nullptr);
  EXPECT_EQ(plan->n_inputs, 4);
  EXPECT_NE(pto_operator_gradient_plan(op, nullptr, nullptr), plan);
  EXPECT_EQ(pto_operator_gradient_plan(op, nullptr, nullptr),
            pto_operator_gradient_plan(op, &one, &one));
  EXPECT_EQ(pto_operator_gradient_plan(op, &three, &one), plan);
  EXPECT_EQ(pto_operator_gradient_plan(pto_operator_at(op->gradient), nullptr, nullptr), nullptr);
}

}  // namespace pto::gradient_plan_test
