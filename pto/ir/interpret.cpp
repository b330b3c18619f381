// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/interpret.hpp"

#include <algorithm>
#include <cmath>

#include "pto/base/strided.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/bounds.hpp"
#include "pto/ir/number.hpp"
#include "pto/ir/verify.hpp"

namespace pto {
namespace {

// Tracks the rest of the limits.
class Budget {
 public:
  explicit Budget(const InterpretLimits& limits) : limits_(limits), left_(limits) {}

  void work(int64_t operations) {
    left_.operations -= std::min(operations, left_.operations);
    if (left_.operations == 0) fail_limit("operations", limits_.operations);
  }

  // Counts the elements of a value before it is made, and the work to make it.
  void hold(int64_t elements) {
    if (elements > left_.elements) fail_limit("elements at one time", limits_.elements);
    left_.elements -= elements;
    work(elements);
  }

  int64_t elements() const { return left_.elements; }
  void give_back_to(int64_t elements) { left_.elements = elements; }

 private:
  [[noreturn]] static void fail_limit(const char* what, int64_t limit) {
    fail({"interpret: the graph takes more than " + text(limit) + " " + what,
          "the interpreter is for small inputs, and a graph of unknown origin must end",
          "pass smaller arrays, or larger limits"});
  }

  const InterpretLimits limits_;
  InterpretLimits left_;
};

// Counts the elements; throws unless the product of the sizes, each counted at least as 1, fits 64
// bits, so that the strides fit too.
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

// Runs one graph, and carries bounds along on request.
class Interpreter {
 public:
  Interpreter(const Graph& graph, const std::vector<int64_t>& symbols, bool with_bounds,
              Budget& budget)
      : graph_(graph), symbols_(symbols), with_bounds_(with_bounds), budget_(budget) {}

  std::vector<Bounded> run(const std::vector<Bounded>& inputs) {
    const int64_t before = budget_.elements();
    for (const Bounded& input : inputs) budget_.hold(static_cast<int64_t>(input.array.size()));
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      budget_.work(1);
      if (i >= inputs.size()) budget_.hold(elements_of(sizes(node.type.shape)));
      results_.push_back(i < inputs.size() ? std::vector{inputs[i]} : results(node));
      for (size_t k = 1; k < results_.back().size(); ++k)
        budget_.hold(static_cast<int64_t>(results_.back()[k].array.size()));
    }
    std::vector<Bounded> outputs;
    for (const Value v : graph_.outputs()) {
      budget_.hold(static_cast<int64_t>(value(v).array.size()));
      outputs.push_back(value(v));
    }
    budget_.give_back_to(before);
    return outputs;
  }

 private:
  const Bounded& value(Value v) const { return results_[static_cast<size_t>(v)][0]; }
  const Bounded& operand(const Node& node, size_t i) const { return value(node.operands[i]); }

  std::vector<int64_t> sizes(const Dims& dims) const {
    std::vector<int64_t> out;
    for (const Dim& dim : dims) out.push_back(evaluate(dim, symbols_));
    return out;
  }

  Bounded empty(DType dtype, std::vector<int64_t> shape) const {
    Bounded out{Array(dtype, std::move(shape)), {}};
    if (with_bounds_) out.bounds.resize(out.array.size());
    return out;
  }

  Bounded gather(const Bounded& from, std::vector<int64_t> shape,
                 const std::vector<size_t>& where) const {
    Bounded out = empty(from.array.dtype, std::move(shape));
    for (size_t i = 0; i < where.size(); ++i) {
      out.array.set(i, from.array.at(where[i]));
      if (with_bounds_) out.bounds[i] = from.bounds[where[i]];
    }
    return out;
  }

  std::vector<Bounded> results(const Node& node) const {
    if (node.op == Opcode::loop) return run_loop(node);
    if (node.op == Opcode::fused) return run_fused(node);
    if (node.op != Opcode::result) return {evaluate_node(node)};
    const auto& all = results_[static_cast<size_t>(node.operands[0])];
    return {all[static_cast<size_t>(node.attributes.index)]};
  }

  Bounded evaluate_node(const Node& node) const {
    switch (node.op) {
      case Opcode::constant:
        return constant(node);
      case Opcode::broadcast:
        return broadcast(operand(node, 0), sizes(node.type.shape));
      case Opcode::reshape:
        return reshape(node);
      case Opcode::transpose:
        return transpose(node);
      case Opcode::view:
        return view(node);
      case Opcode::matmul:
        return matmul(node);
      default:
        return is_elementwise(node.op) ? elementwise(node) : reduce(node);
    }
  }

  Bounded constant(const Node& node) const {
    Bounded out = empty(node.type.dtype, {});
    if (const auto* real = std::get_if<double>(&node.attributes.value))
      out.array.set(0, {*real, 0});
    else
      out.array.set(0, {0, std::get<int64_t>(node.attributes.value)});
    return out;
  }

  Bounded broadcast(const Bounded& from, std::vector<int64_t> shape) const {
    const auto dense = dense_strides(from.array.shape);
    std::vector<int64_t> strides(shape.size(), 0);
    const size_t skipped = shape.size() - dense.size();
    for (size_t i = 0; i < dense.size(); ++i)
      strides[skipped + i] = from.array.shape[i] == 1 ? 0 : dense[i];
    return gather(from, shape, places(shape, strides));
  }

  Bounded reshape(const Node& node) const {
    Bounded out = operand(node, 0);
    out.array.shape = sizes(node.type.shape);
    return out;
  }

  Bounded transpose(const Node& node) const {
    const Bounded& from = operand(node, 0);
    const auto dense = dense_strides(from.array.shape);
    std::vector<int64_t> shape, strides;
    for (const int64_t axis : node.attributes.axes) {
      shape.push_back(from.array.shape[static_cast<size_t>(axis)]);
      strides.push_back(dense[static_cast<size_t>(axis)]);
    }
    return gather(from, shape, places(shape, strides));
  }

  Bounded view(const Node& node) const {
    const Bounded& from = operand(node, 0);
    const auto dense = dense_strides(from.array.shape), shape = sizes(node.type.shape);
    int64_t start = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t offset = operand(node, i + 1).array.integers[0];
      if (offset < 0 || offset > from.array.shape[i] - shape[i])
        fail({"view: axis " + std::to_string(i) + ", offset " + text(offset) + " and size " +
                  text(shape[i]) + " of " + text(from.array.shape[i]),
              "a view lies inside its tensor", "choose a smaller offset or size"},
             ErrorKind::Index);
      start += offset * dense[i];
    }
    Bounded out = gather(from, shape, places(shape, dense, start));
    for (size_t i = 0; with_bounds_ && i < shape.size(); ++i)
      if (operand(node, i + 1).bounds[0] > 0)
        std::fill_n(out.bounds.begin(), out.bounds.size(), INFINITY);
    return out;
  }

  Bounded elementwise(const Node& node) const {
    const size_t arity = node.operands.size();
    const DType from = operand(node, node.op == Opcode::where ? 1 : 0).array.dtype;
    Bounded out = empty(node.type.dtype, operand(node, 0).array.shape);
    std::vector<ElementNumber> x(arity);
    std::vector<double> b(arity);
    for (size_t i = 0; i < out.array.size(); ++i) {
      for (size_t k = 0; k < arity; ++k) x[k] = operand(node, k).array.at(i);
      const ElementValue element_value = evaluate_element(node.op, from, node.type.dtype, x);
      out.array.set(i, element_value.number);
      if (!with_bounds_) continue;
      for (size_t k = 0; k < arity; ++k) b[k] = operand(node, k).bounds[i];
      out.bounds[i] = element_bound(node.op, from, node.type.dtype, x, b, element_value);
    }
    return out;
  }

  // Folds x into element i of `out`; compiled code takes `steps` one after another.
  void fold_into(Bounded& out, size_t i, Opcode op, const std::vector<ElementNumber>& x,
                 const std::vector<double>& b, double steps) const {
    const DType dtype = out.array.dtype;
    const ElementNumber total = folded(op, dtype, x);
    out.array.set(i, {round_to(is_float(dtype) ? dtype : DType::F64, total.real), total.integer});
    if (with_bounds_) out.bounds[i] = reduction_bound(op, dtype, x, b, steps, out.array.at(i));
  }

  Bounded reduce(const Node& node) const {
    const Bounded& from = operand(node, 0);
    const auto dense = dense_strides(from.array.shape);
    std::vector<int64_t> kept = from.array.shape, inner, inner_strides;
    for (const int64_t axis : node.attributes.axes) {
      kept[static_cast<size_t>(axis)] = 1;
      inner.push_back(from.array.shape[static_cast<size_t>(axis)]);
      inner_strides.push_back(dense[static_cast<size_t>(axis)]);
    }
    Bounded out = empty(node.type.dtype, kept);
    const auto starts = places(kept, dense), steps = places(inner, inner_strides);
    std::vector<ElementNumber> x(steps.size());
    std::vector<double> b(with_bounds_ ? steps.size() : 0);
    for (size_t i = 0; i < starts.size(); ++i) {
      for (size_t k = 0; k < steps.size(); ++k) {
        x[k] = from.array.at(starts[i] + steps[k]);
        if (with_bounds_) b[k] = from.bounds[starts[i] + steps[k]];
      }
      fold_into(out, i, node.op, x, b, steps_of_sum(x.size()));
    }
    return out;
  }

  Bounded matmul(const Node& node) const {
    const auto shape = sizes(node.type.shape);
    const size_t rank = shape.size();
    const int64_t k = operand(node, 0).array.shape.back();
    auto left = shape, right = shape;
    left[rank - 1] = right[rank - 2] = k;
    const int64_t before = budget_.elements();
    budget_.hold(elements_of(left));
    budget_.hold(elements_of(right));
    budget_.work(evaluate(Dim(elements_of(shape)) * Dim(k), {}));
    const Bounded a = broadcast(operand(node, 0), left), b = broadcast(operand(node, 1), right);
    budget_.give_back_to(before);
    Bounded out = empty(node.type.dtype, shape);
    const auto n = static_cast<size_t>(shape[rank - 1]), m = static_cast<size_t>(shape[rank - 2]);
    const auto depth = static_cast<size_t>(k);
    for (size_t i = 0; i < out.array.size(); ++i) {
      const size_t batch = i / (m * n), row = i / n, column = i % n;
      std::vector<ElementNumber> x;
      std::vector<double> off;
      for (size_t j = 0; j < depth; ++j) {
        const size_t p = row * depth + j, q = batch * depth * n + j * n + column;
        const ElementNumber u = a.array.at(p), v = b.array.at(q);
        x.push_back({u.real * v.real, static_cast<int64_t>(static_cast<uint64_t>(u.integer) *
                                                           static_cast<uint64_t>(v.integer))});
        if (with_bounds_)
          off.push_back(std::abs(u.real) * b.bounds[q] + std::abs(v.real) * a.bounds[p] +
                        a.bounds[p] * b.bounds[q]);
      }
      fold_into(out, i, Opcode::sum, x, off, static_cast<double>(x.size()));
    }
    return out;
  }

  std::vector<Bounded> run_body(const Graph& body, const std::vector<Bounded>& inputs) const {
    return Interpreter(body, symbols_, with_bounds_, budget_).run(inputs);
  }

  std::vector<Bounded> run_fused(const Node& node) const {
    std::vector<Bounded> inputs;
    for (const Value v : node.operands) inputs.push_back(value(v));
    check_guards(*node.attributes.body, symbols_);
    return run_body(*node.attributes.body, inputs);
  }

  std::vector<Bounded> run_loop(const Node& node) const {
    const auto bound_of = [&](size_t i) { return operand(node, i).array.integers[0]; };
    const int64_t stop = bound_of(1), step = bound_of(2);
    if (step == 0)
      fail({"loop: the step is 0", "a loop must come to its end",
            "use a positive or negative step"});
    std::vector<Bounded> carried;
    for (size_t i = 3; i < node.operands.size(); ++i) carried.push_back(operand(node, i));
    check_guards(*node.attributes.body, symbols_);
    bool fits = true;  // the next index
    for (int64_t index = bound_of(0); fits && (step > 0 ? index < stop : index > stop);
         fits = !__builtin_add_overflow(index, step, &index)) {
      carried.insert(carried.begin(), empty(DType::I64, {}));
      carried[0].array.integers[0] = index;
      carried = run_body(*node.attributes.body, carried);
    }
    return carried;
  }

  const Graph& graph_;
  const std::vector<int64_t>& symbols_;
  bool with_bounds_;
  Budget& budget_;
  std::vector<std::vector<Bounded>> results_;  // of each node; loop and fused may have several
};

std::vector<Bounded> run(const Graph& graph, const std::vector<Array>& inputs, bool with_bounds,
                         const InterpretLimits& limits) {
  verify(graph);  // the nodes below index what the rules promise
  const auto symbols = bind_symbols(graph, inputs);
  Budget budget(limits);
  std::vector<Bounded> bounded;
  for (const Array& array : inputs)
    bounded.push_back({array, std::vector<double>(with_bounds ? array.size() : 0)});
  return Interpreter(graph, symbols, with_bounds, budget).run(bounded);
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

std::string difference(const Bounded& want, const Array& got) {
  if (want.array.dtype != got.dtype || want.array.shape != got.shape)
    return "expected " + text(want.array, 0) + " but got " + text(got, 0);
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(want.bounds[i])) continue;
    const ElementNumber x = want.array.at(i), y = got.at(i);
    const bool both_nan = std::isnan(x.real) && std::isnan(y.real);
    const bool near = both_nan || x.real == y.real || std::abs(x.real - y.real) <= want.bounds[i];
    if (near && x.integer == y.integer) continue;
    const bool real = is_float(got.dtype);
    return "element " + std::to_string(i) + " of " + text(got, 0) + ": expected " +
           (real ? text(x.real) : text(x.integer)) + " within " + text(want.bounds[i]) +
           " but got " + (real ? text(y.real) : text(y.integer));
  }
  return "";
}

}  // namespace pto
