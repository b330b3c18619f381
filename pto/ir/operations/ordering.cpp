// SPDX-License-Identifier: Apache-2.0
// Sorts along the last axis. Equal elements keep their order, zeros of either sign are equal, and
// NaN is the largest.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_sort(const Node& node, const Operands& operands) {
  const Type& out = type(operands, 0);
  if (!out.shape.empty()) return out;
  fail({label(node.op) + ": the operand is " + text(out), "a sort is along the last axis",
        "give the operand an axis"});
}

std::vector<Type> results_of_sort(const Node& node) {
  return {node.type, {DType::I64, node.type.shape}};
}

bool is_less(DType dtype, ElementNumber a, ElementNumber b) {
  if (is_float(dtype)) return a.real < b.real || (std::isnan(b.real) && !std::isnan(a.real));
  if (dtype == DType::U64)
    return static_cast<uint64_t>(a.integer) < static_cast<uint64_t>(b.integer);
  return a.integer < b.integer;
}

// Values that are off by at most `most` are, sorted, off by at most that; their positions are open.
void bound_row(const Bounded& from, size_t start, size_t size, Bounded& values,
               Bounded& positions) {
  const auto first = from.bounds.begin() + static_cast<int64_t>(start);
  const double most = *std::max_element(first, first + static_cast<int64_t>(size));
  for (size_t i = start; i < start + size; ++i) {
    values.bounds[i] = most > 0 && !is_float(from.array.dtype) ? INFINITY : most;
    positions.bounds[i] = most > 0 ? INFINITY : 0;
  }
}

template <bool descending>
std::vector<Bounded> evaluate_sort(Evaluation& in, const Node& node) {
  const Bounded& from = in.operand(node, 0);
  const DType dtype = from.array.dtype;
  Bounded values = in.empty(dtype, from.array.shape),
          positions = in.empty(DType::I64, from.array.shape);
  const auto size = static_cast<size_t>(from.array.shape.back());
  std::vector<size_t> order(size);
  for (size_t start = 0; start < from.array.size(); start += size) {
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (descending) std::swap(a, b);
      return is_less(dtype, from.array.at(start + a), from.array.at(start + b));
    });
    for (size_t i = 0; i < size; ++i) {
      values.array.set(start + i, from.array.at(start + order[i]));
      positions.array.integers[start + i] = static_cast<int64_t>(order[i]);
    }
    if (in.with_bounds()) bound_row(from, start, size, values, positions);
  }
  std::vector<Bounded> results;
  results.push_back(std::move(values));
  results.push_back(std::move(positions));
  return results;
}

constexpr Operation sort_row(std::string_view name,
                             std::vector<Bounded> (*evaluate)(Evaluation&, const Node&)) {
  return {.info = {name, "", Family::Structure, 1},
          .kernel = KernelForm::Step,
          .infer = infer_sort,
          .results = results_of_sort,
          .evaluate = evaluate,
          .keeps_rows_apart = has_axes_behind_batch};  // the last axis stays the last
}

}  // namespace

namespace operations {

constinit const Operation sort = sort_row("sort", evaluate_sort<false>);
constinit const Operation sort_descending = sort_row("sort_descending", evaluate_sort<true>);

}  // namespace operations
}  // namespace pto
