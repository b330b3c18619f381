// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/operations/evaluation.hpp"

#include <algorithm>
#include <deque>
#include <span>

#include "pto/base/counterexample.hpp"
#include "pto/base/number.hpp"
#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/bounds.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

[[noreturn]] void fail_limit(const char* what, int64_t limit) {
  fail({"interpret: the graph takes more than " + text(limit) + " " + what,
        "the interpreter is for small inputs, and a graph of unknown origin must end",
        "pass smaller arrays, or larger limits"});
}

// Folds the elements in their order. A long sum of floats folds in pairs of halves, since compiled
// code adds blocks of it: see isa/reduce/block_sums.hpp.
ElementNumber folded(Opcode op, DType dtype, std::span<const ElementNumber> x) {
  if (op == Opcode::sum && is_float(dtype) && x.size() > 128) {
    const size_t half = x.size() / 2;
    return fold(op, dtype, folded(op, dtype, x.first(half)), folded(op, dtype, x.subspan(half)));
  }
  ElementNumber total = identity(op, dtype);
  for (const ElementNumber& n : x) total = fold(op, dtype, total, n);
  return total;
}

}  // namespace

void Budget::work(int64_t operations) {
  left_.operations -= std::min(operations, left_.operations);
  if (left_.operations == 0) fail_limit("operations", limits_.operations);
  poll(1);
}

void Budget::ask() {
  unpolled_ = 0;
  if (limits_.interrupted != nullptr && limits_.interrupted())
    fail({"the interpreter was interrupted", "its host has asked it to end", "call it again"},
         ErrorKind::Runtime);
}

void Budget::round() {
  if (left_.rounds-- == 0)
    fail({"a loop has not ended after " + text(limits_.rounds) + " rounds",
          "a while loop ends when its condition fails, and the interpreter waits no longer",
          "change what the condition reads, in the body; or loop over pto.loop(n)"});
}

void Budget::hold(int64_t elements) {
  if (elements > left_.elements) fail_limit("elements at one time", limits_.elements);
  left_.elements -= elements;
  work(elements);
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0)
      fail({"a value of the graph has the shape " + text(shape), "sizes are not negative",
            "pass arrays of other sizes"});
    empty = empty || size == 0;
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count))
      fail({"a value of the graph has the shape " + text(shape),
            "sizes and their products are signed 64-bit numbers", "use smaller sizes"});
  }
  return empty ? 0 : count;
}

Shared Evaluation::run(const Shared& inputs) {
  const int64_t before = budget_.elements();
  begin(inputs);
  advance();
  Shared outputs;
  for (const Value v : graph_.outputs()) outputs.push_back(shared(v));
  budget_.give_back_to(before);
  return outputs;
}

void Evaluation::begin(const Shared& inputs) {
  for (const auto& input : inputs) results_.push_back({input});
}

void Evaluation::advance() {
  check_guards(graph_, symbols_);
  for (size_t i = results_.size(); i < graph_.nodes().size(); ++i) try {
      evaluate_node(graph_.nodes()[i]);
    } catch (const Error& error) {
      const auto& locations = graph_.nodes()[i].locations;
      throw error.at(locations.empty() ? "" : text(locations[0]));
    }
}

void Evaluation::evaluate_node(const Node& node) {
  budget_.work(1);
  const int64_t counted = elements_of(sizes(node.type.shape));
  budget_.hold(counted);
  Shared& results = results_.emplace_back();
  for (Bounded& result : operation(node.op).evaluate(*this, node))
    results.push_back(std::make_shared<const Bounded>(std::move(result)));
  for (size_t k = 1; k < results.size(); ++k)
    budget_.hold(static_cast<int64_t>(results[k]->array.size()));
}

std::vector<int64_t> Evaluation::sizes(const Dims& dims) const {
  std::vector<int64_t> out;
  for (const Dim& dim : dims) out.push_back(evaluate(dim, symbols_));
  return out;
}

Bounded Evaluation::empty(DType dtype, std::vector<int64_t> shape) const {
  Bounded out{Array(dtype, std::move(shape)), {}};
  if (with_bounds_) out.bounds.resize(out.array.size());
  return out;
}

Bounded Evaluation::gather(const Bounded& from, std::vector<int64_t> shape,
                           const std::vector<size_t>& where) const {
  Bounded out = empty(from.array.dtype, std::move(shape));
  for (size_t i = 0; i < where.size(); ++i) {
    budget_.poll(1);
    out.array.set(i, from.array.at(where[i]));
    if (with_bounds_) out.bounds[i] = from.bounds[where[i]];
  }
  return out;
}

Bounded Evaluation::broadcast(const Bounded& from, const std::vector<int64_t>& shape) const {
  const auto dense = dense_strides(from.array.shape);
  std::vector<int64_t> strides(shape.size(), 0);
  const size_t skipped = shape.size() - dense.size();
  for (size_t i = 0; i < dense.size(); ++i)
    strides[skipped + i] = from.array.shape[i] == 1 ? 0 : dense[i];
  return gather(from, shape, places(shape, strides));
}

void Evaluation::fold_into(Bounded& out, size_t i, Opcode op, const std::vector<ElementNumber>& x,
                           const std::vector<double>& b, double steps) const {
  budget_.poll(static_cast<int64_t>(x.size()));
  const DType dtype = out.array.dtype;
  const ElementNumber total = folded(op, dtype, x);
  out.array.set(i, {round_to(is_float(dtype) ? dtype : DType::F64, total.real), total.integer});
  if (with_bounds_) out.bounds[i] = reduction_bound(op, dtype, x, b, steps, out.array.at(i));
}

Shared Evaluation::run_body(const Graph& body, const Shared& inputs) {
  return Evaluation(body, symbols_, with_bounds_, budget_).run(inputs);
}

void Evaluation::define(const Node& size, int64_t value) {
  const auto index = static_cast<size_t>(size.attributes.size.value());
  if (index >= symbols_.size()) symbols_.resize(index + 1, kUnknownSize);
  symbols_[index] = value;
  check_guards(graph_, symbols_, [&] {
    std::vector<pto_tensor> sides;
    std::deque<std::vector<int64_t>> strides;
    for (size_t i = 1; i < size.operands.size(); ++i) {
      const Array& x = operand(size, i).array;
      const bool has_reals = is_float(x.dtype);
      const DLPackType type = dlpack_type(has_reals ? DType::F64 : DType::I64);
      const void* const data = has_reals ? static_cast<const void*>(x.reals.data())
                                         : static_cast<const void*>(x.integers.data());
      strides.push_back(dense_strides(x.shape));
      sides.push_back({const_cast<void*>(data), x.shape.data(), strides.back().data(),
                       static_cast<int32_t>(x.shape.size()), type.code, type.bits, 1, 0, -1});
    }
    return counterexample(size.attributes.name, sides.data());
  });
}

}  // namespace pto
