// SPDX-License-Identifier: Apache-2.0
// StepNodes: the nodes of a graph that stand between its fused kernels.
//
//     const StepNodes steps(graph);
//     steps.has(matmul);           // a statement of its own
//     steps.roots();               // values that kernels compute for steps and for the caller
//
// A product, a part of a tensor, a write or a loop is a step. So is arithmetic on whole numbers
// that says where a part lies or how often a loop runs: it needs no kernel. So are transposes and
// reshapes between a step and memory: they only address it in another way. A value that is returned
// with another axis last is copied.
//
// Invariant: the operands of a step are steps, parameters, constants or roots.
// Thread safety: immutable.
#pragma once

#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// Says whether a broadcast repeats elements along the last two axes, those of a matrix.
bool repeats_in_matrix(const Graph& graph, const Node& node);

class StepNodes {
 public:
  // A body of a step has steps: its numbers stay numbers, and what it passes on is not copied.
  // `is_kept`, empty for none: nodes that are their operand, as it lies in memory; steps, too.
  StepNodes(const Graph& graph, bool is_body, const std::vector<bool>& is_kept = {});

  bool any() const { return any_; }  // false: kernels compute the whole graph
  bool has(Value v) const { return is_step_[static_cast<size_t>(v)]; }
  // Values that kernels compute, in the order of the graph and without repetition.
  const std::vector<Value>& roots() const { return roots_; }

 private:
  bool is_made(Value v) const;  // in memory before any kernel of this graph runs, or by a step
  void demand(const Node& step);
  void demand_number(Value v);
  void demand_tensor(Value v, bool may_alias);
  void add_root(Value v);

  const Graph& graph_;
  bool any_;
  std::vector<bool> is_step_, is_root_;
  std::vector<Value> roots_;
};

// Says whether a kernel reads the rows that a gather names where they lie: gather_in_kernels.hpp.
bool is_gathered_in_kernel(const Node& node);

// Says whether a node is a size as an i64 number; reduced_size() of its operand is the size.
bool is_extent(const Graph& graph, const Node& node);

}  // namespace pto
