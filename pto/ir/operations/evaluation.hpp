// SPDX-License-Identifier: Apache-2.0
// Evaluation: the interpreter at work on one graph; the operations compute their values in it.
//
//     std::vector<Bounded> evaluate_reshape(Evaluation& in, const Node& node) {
//       Bounded out = in.operand(node, 0);
//       out.array.shape = in.sizes(node.type.shape);
//       return one_result(std::move(out));
//     }
//
// Invariant: operands have their values when a node is evaluated. What a value takes is counted
// before it is made: the interpreter counts results, an operation what else it holds.
// Thread safety: none; one thread evaluates.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pto/ir/interpret.hpp"

namespace pto {

// Tracks what is left of the limits.
class Budget {
 public:
  explicit Budget(const InterpretLimits& limits) : limits_(limits), left_(limits) {}

  void work(int64_t operations);
  // Is called while work is done, each time so many operations later, for an interruption.
  void poll(int64_t operations) {
    if ((unpolled_ += operations) >= kPolled) ask();
  }
  void round();  // of a loop that runs until its values end it
  // Counts the elements of a value before it is made, and the work to make it.
  void hold(int64_t elements);
  int64_t elements() const { return left_.elements; }
  void give_back_to(int64_t elements) { left_.elements = elements; }

 private:
  static constexpr int64_t kPolled = 1 << 20;  // some ten milliseconds

  void ask();

  const InterpretLimits limits_;
  InterpretLimits left_;
  int64_t unpolled_ = 0;
};

// Counts the elements; throws unless the product of the sizes, each counted at least as 1, fits 64
// bits, so that the strides fit too.
int64_t elements_of(const std::vector<int64_t>& shape);

// Values that a body and its loop share.
using Shared = std::vector<std::shared_ptr<const Bounded>>;

class Evaluation {
 public:
  // `symbols[i]` is the size s<i>, or kUnknownSize until a `size` node defines it.
  Evaluation(const Graph& graph, std::vector<int64_t> symbols, bool with_bounds, Budget& budget)
      : graph_(graph), symbols_(std::move(symbols)), with_bounds_(with_bounds), budget_(budget) {}

  // The inputs have been counted. Errors name the user's line.
  Shared run(const Shared& inputs);
  // The same in steps, for a graph that grows: begin() once, then advance() to its newest node.
  void begin(const Shared& inputs);
  void advance();

  // --- what operations use -----------------------------------------------------------------------
  bool with_bounds() const { return with_bounds_; }
  Budget& budget() { return budget_; }
  const Bounded& operand(const Node& node, size_t i) const { return value(node.operands[i]); }
  const Bounded& result(Value v, size_t i) const { return *results_[static_cast<size_t>(v)][i]; }
  const std::shared_ptr<const Bounded>& shared(Value v) const {
    return results_[static_cast<size_t>(v)][0];
  }
  std::vector<int64_t> sizes(const Dims& dims) const;

  Bounded empty(DType dtype, std::vector<int64_t> shape) const;  // zeros, with bounds of 0
  // The elements of `from` at these places.
  Bounded gather(const Bounded& from, std::vector<int64_t> shape,
                 const std::vector<size_t>& where) const;
  Bounded broadcast(const Bounded& from, const std::vector<int64_t>& shape) const;
  // Folds x, off by b, into element i of `out`; compiled code takes `steps` one after another.
  void fold_into(Bounded& out, size_t i, Opcode op, const std::vector<ElementNumber>& x,
                 const std::vector<double>& b, double steps) const;
  Shared run_body(const Graph& body, const Shared& inputs);
  void define(const Node& size, int64_t value);  // and checks the guards that have it

 private:
  const Bounded& value(Value v) const { return result(v, 0); }
  void evaluate_node(const Node& node);

  const Graph& graph_;
  std::vector<int64_t> symbols_;
  bool with_bounds_;
  Budget& budget_;
  std::vector<Shared> results_;  // of each node; one with a body may have several
};

}  // namespace pto
