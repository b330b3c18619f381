// SPDX-License-Identifier: Apache-2.0
// LateReads: says which values kernels read from memory although they could compute them again:
// those that a step reads, and that lie there before the reader runs, since it waits for a step
// behind them.
//
//     const LateReads late(graph, StepNodes(graph, false));   // y1 = y0 + y0 @ w; y2 = y1 + y1 @ w
//     late.reads(late.first_use(y2), y1);                     // true
//
// Without them each layer's kernel would compute all layers before it. A value that one operation
// makes of another in memory is computed again, which takes no more than to read it.
//
// Thread safety: immutable.
#pragma once

#include <set>
#include <vector>

#include "pto/passes/steps.hpp"

namespace pto {

class LateReads {
 public:
  // Both outlive it.
  LateReads(const Graph& graph, const StepNodes& steps);

  // The stage in which a value is computed first: for itself, or for those that read it.
  int first_use(Value v) const { return first_use_[static_cast<size_t>(v)]; }
  // Says whether a kernel of this stage reads the value from memory.
  bool reads(int stage, Value v) const {
    return stage > stage_[static_cast<size_t>(v)] && worth_.count(v) != 0;
  }
  bool any() const;

 private:
  bool is_made(Value v) const { return graph_[v].is_parameter() || steps_.has(v); }
  bool is_worth_reading(Value root) const;

  const Graph& graph_;
  const StepNodes& steps_;
  std::vector<int> stage_;  // the steps in a row that lie before a value
  std::vector<int> first_use_;
  std::set<Value> worth_;
};

}  // namespace pto
