// SPDX-License-Identifier: Apache-2.0
// pto_operator_gradient_plan(): plans, kept for the life of the process.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "pto/base/of_process.hpp"
#include "pto/operators/operator.hpp"

namespace pto {

using Counts = std::vector<int32_t>;

// A plan that owns what it points to.
struct GradientPlan : pto_gradient_plan {
  GradientPlan(const pto_operator& of, Counts call_counts, Counts output_counts);
  GradientPlan(const GradientPlan&) = delete;

  bool is_for(const int32_t* call_counts, const int32_t* output_counts) const {
    return same(call_counts, counts_) && same(output_counts, output_counts_);
  }

 private:
  struct Range {
    int32_t first, count;
  };

  static bool same(const int32_t* given, const Counts& known) {
    return given ? std::equal(known.begin(), known.end(), given)
                 : std::ranges::all_of(known, [](int32_t count) { return count == 1; });
  }

  // Gives each count a range of places, from `at` on.
  static std::vector<Range> ranges(const Counts& all, int32_t& at) {
    std::vector<Range> result;
    for (const int32_t count : all) result.push_back({std::exchange(at, at + count), count});
    return result;
  }

  void take(Range range) {
    takes_.push_back(range.count);
    for (int32_t i = 0; i < range.count; ++i) inputs_.push_back(range.first + i);
  }

  void give(Range argument, int32_t output, bool is_list) {
    for (int32_t member = 0; member < argument.count; ++member) {
      const auto tensor = static_cast<size_t>(argument.first + member);
      gives_[tensor] = output, members_[tensor] = member, places_[tensor] = results_ + member;
    }
    if (argument.count > 0) all_needs |= int64_t{1} << output;
    if (is_list) has_lists = 1;
    results_ += is_list ? argument.count : 1;
  }

  const Counts counts_, output_counts_;
  Counts inputs_, takes_, gives_, members_, places_;
  int32_t results_ = 0;
};

GradientPlan::GradientPlan(const pto_operator& of, Counts call_counts, Counts output_counts)
    : pto_gradient_plan{},
      counts_(std::move(call_counts)),
      output_counts_(std::move(output_counts)) {
  int32_t at = 0;
  const std::vector<Range> d_outputs = ranges(output_counts_, at);
  const int32_t tensors = at;
  const std::vector<Range> given = ranges(counts_, at);
  n_given = at - tensors;
  const std::vector<Range> outputs_of = ranges(output_counts_, at);
  std::vector<Range> arguments;  // attributes have none
  size_t tensor = 0;
  for (int32_t i = 0; i < of.n_arguments; ++i) {
    const bool is_tensor = of.arguments[i].kind <= PTO_KIND_TENSOR_LIST;
    arguments.push_back(is_tensor ? given[tensor++] : Range{0, 0});
  }

  for (size_t i = 0; i < d_outputs.size(); ++i) {
    if (of.outputs[i].is_differentiable) take(d_outputs[i]);
  }
  for (const int32_t source : std::span(of.saved, static_cast<size_t>(of.n_saved))) {
    take(source >= 0 ? arguments[static_cast<size_t>(source)]
                     : outputs_of[static_cast<size_t>(-1 - source)]);
  }
  for (Counts* const list : {&gives_, &members_, &places_})
    list->assign(static_cast<size_t>(n_given), list == &members_ ? 0 : -1);
  for (int32_t output = 0; output < of.n_wanted; ++output) {
    const int32_t wanted = of.wanted[output];
    Range argument = arguments[static_cast<size_t>(wanted)];
    argument.first -= tensors;
    give(argument, output, of.arguments[wanted].kind == PTO_KIND_TENSOR_LIST);
  }
  op = of.gradient;
  n_inputs = static_cast<int32_t>(inputs_.size());
  inputs = inputs_.data(), counts = takes_.data();
  outputs = gives_.data(), members = members_.data(), places = places_.data();
}

namespace {

Counts counts_from(const int32_t* counts, int32_t size) {
  return counts ? Counts(counts, counts + size) : Counts(static_cast<size_t>(size), 1);
}

struct Plans {
  using Key = std::pair<int32_t, std::pair<Counts, Counts>>;
  std::mutex mutex;
  std::map<Key, std::unique_ptr<const GradientPlan>> of;
};

const GradientPlan& kept(const pto_operator& op, Counts counts, Counts output_counts) {
  auto& [mutex, plans] = of_process<Plans>();
  const std::lock_guard lock(mutex);
  auto& plan = plans[{op.index, {counts, output_counts}}];
  if (!plan)
    plan = std::make_unique<const GradientPlan>(op, std::move(counts), std::move(output_counts));
  return *plan;
}

}  // namespace
}  // namespace pto

const pto_gradient_plan* pto_operator_gradient_plan(const pto_operator* op, const int32_t* counts,
                                                    const int32_t* output_counts) {
  if (op->gradient < 0) return nullptr;
  auto& last = pto::operator_at(op->index).last_plan;
  const pto::GradientPlan* plan = last.load(std::memory_order_acquire);
  if (plan == nullptr || !plan->is_for(counts, output_counts)) {
    plan = &pto::kept(*op, pto::counts_from(counts, op->n_tensors),
                      pto::counts_from(output_counts, op->n_outputs));
    last.store(plan, std::memory_order_release);
  }
  return plan;
}
