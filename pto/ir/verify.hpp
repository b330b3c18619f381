// SPDX-License-Identifier: Apache-2.0
// verify(): checks the invariants of a graph; the pipeline calls it after every pass.
//
//     verify(graph);   // throws pto::Error that names the node and the broken rule
//
// Rules: operands stand before their node; inputs stand first, in order, with different names;
// types follow from the operands; equal nodes are one; sizes that count as equal are provably so or
// have a guard; a size from data stands before its uses, in its own graph or in bodies there; a
// result belongs to a node with several; outputs exist; bodies obey the same rules.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

void verify(const Graph& graph);

// The sizes that the guards of a graph make equal.
class EqualSizes {
 public:
  explicit EqualSizes(const std::vector<Guard>& guards);

  // Returns one expression for all equal ones: a constant where there is one, else the first text
  // in print.
  Dim representative(const Dim& dim) const;
  bool operator()(const Dim& a, const Dim& b) const {
    return representative(a) == representative(b);
  }

 private:
  void join(const Dim& a, const Dim& b);
  std::vector<std::pair<Dim, Dim>> known_;  // an expression and its representative
};

}  // namespace pto
