// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/interpret.hpp"

#include <algorithm>
#include <cmath>

#include "pto/base/text.hpp"
#include "pto/ir/bounds.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/verify.hpp"

namespace pto {
namespace {

std::vector<Bounded> run(const Graph& graph, const std::vector<Array>& inputs, bool with_bounds,
                         const InterpretLimits& limits) {
  verify(graph);  // the nodes below index what the rules promise
  const auto symbols = bind_symbols(graph, inputs);
  Budget budget(limits);
  Shared shared;
  for (const Array& array : inputs) {
    budget.hold(static_cast<int64_t>(array.size()));
    const std::vector<double> bounds(with_bounds ? array.size() : 0);
    shared.push_back(std::make_shared<const Bounded>(Bounded{array, bounds}));
  }
  std::vector<Bounded> outputs;
  for (const auto& output : Evaluation(graph, symbols, with_bounds, budget).run(shared)) {
    budget.hold(static_cast<int64_t>(output->array.size()));
    outputs.push_back(*output);
  }
  return outputs;
}

}  // namespace

std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs,
                             const InterpretLimits& limits) {
  std::vector<Array> outputs;
  for (Bounded& bounded : run(graph, inputs, false, limits))
    outputs.push_back(std::move(bounded.array));
  return outputs;
}

std::vector<Bounded> interpret_with_bounds(const Graph& graph, const std::vector<Array>& inputs,
                                           const InterpretLimits& limits) {
  std::vector<Bounded> outputs = run(graph, inputs, true, limits);
  for (Bounded& out : outputs)
    for (size_t i = 0; i < out.array.size(); ++i)
      out.bounds[i] = output_bound(out.array.dtype, out.array.at(i), out.bounds[i]);
  return outputs;
}

std::optional<size_t> first_difference(const Bounded& want, const Array& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(want.bounds[i])) continue;
    const ElementNumber x = want.array.at(i), y = got.at(i);
    const bool both_nan = std::isnan(x.real) && std::isnan(y.real);
    const bool near = both_nan || x.real == y.real || std::abs(x.real - y.real) <= want.bounds[i];
    if (!near || x.integer != y.integer) return i;
  }
  return std::nullopt;
}

std::string difference(const Bounded& want, const Array& got) {
  if (want.array.dtype != got.dtype || want.array.shape != got.shape)
    return "expected " + text(want.array, 0) + " but got " + text(got, 0);
  const auto found = first_difference(want, got);
  if (!found) return "";
  const ElementNumber x = want.array.at(*found), y = got.at(*found);
  const bool real = is_float(got.dtype);
  return "element " + std::to_string(*found) + " of " + text(got, 0) + ": expected " +
         (real ? text(x.real) : text(x.integer)) + " within " + text(want.bounds[*found]) +
         " but got " + (real ? text(y.real) : text(y.integer));
}

}  // namespace pto
