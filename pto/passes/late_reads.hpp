// SPDX-License-Identifier: Apache-2.0
// LateReads: says which values kernels read from memory although they could compute them again:
// those that a kernel computes for a step or another kernel before the reader runs, which waits for
// a step behind them, or for a reduction in another loop nest.
//
//     const LateReads late(graph, StepNodes(graph, false));   // y1 = y0 + y0 @ w; y2 = y1 + y1 @ w
//     late.reads(late.first_use(y2), y1);                     // true
//
// Without them the kernel of each layer, or of each round of sums along rows and along columns,
// would compute all before it. What takes no more than to read it, or to store and read it where no
// step needs it, is computed again.
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
  bool reads(int stage, Value v) const { return stage > first_use(v) && worth_.count(v) != 0; }
  bool any() const;

 private:
  bool is_made(Value v) const { return graph_[v].is_parameter() || steps_.has(v); }
  bool takes_more(Value v, int whole_values, int operations) const;

  const Graph& graph_;
  const StepNodes& steps_;
  std::vector<int> first_use_;
  std::set<Value> worth_;
};

}  // namespace pto
