// SPDX-License-Identifier: Apache-2.0
// LoopNest: a loop with one loop in its body, and whether the two may change places.
//
//     const LoopNest nest(graph, v, loop);
//     if (nest.pays() && nest.obstacle().empty()) ...
//
// Thread safety: immutable; it refers to the loop's body.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// Says whether a loop counts from 0 by 1.
bool counts_by_one(const Graph& graph, const Node& loop);
// Returns where a loop stops, if that is a size; nothing: it comes from data.
std::optional<Dim> stop_of(const Graph& graph, const Node& loop);

class LoopNest {
 public:
  // `loop`: node v of the graph, with the body to look at.
  LoopNest(const Graph& graph, Value v, const Node& loop);

  // True where the inner loop reads parts, other ones in each iteration, whose rows those of the
  // outer loop's next iteration interrupt.
  bool pays() const { return !parts_.empty(); }
  // These parts, as values of the inner loop's body.
  const std::set<Value>& parts() const { return parts_; }
  // The reason why the loops keep their order; "": they may change it.
  const std::string& obstacle() const { return obstacle_; }

  const Graph& body() const { return body_; }  // of the outer loop
  Value inner() const { return inner_; }       // in that body
  const Node& inner_loop() const { return body_[inner_]; }
  size_t carried() const { return inner_loop().body().outputs().size(); }  // by the inner loop
  const Dim& size() const { return size_; }  // iterations of the outer loop
  // Values of the body, beside what the inner loop carries, that are computed once an iteration.
  const std::set<Value>& kept() const { return kept_; }
  // True where a value of the body is the same in all iterations of the outer loop.
  bool is_common(Value v) const { return (flags_[static_cast<size_t>(v)] & ~kOuter) == 0; }

 private:
  enum : unsigned { kIndex = 1, kWritten = 2, kInner = 4, kOuter = 8 };  // what a value depends on

  std::string find_obstacle(const Graph& graph, Value v, const Node& loop);
  void mark_values();
  void find_side_by_side();
  bool is_side_by_side(const Node& view, const std::vector<unsigned>& flags) const;
  void keep(Value v, std::set<Value>* seen);
  bool has(Value v, unsigned flags) const { return flags_[static_cast<size_t>(v)] & flags; }

  const Graph& body_;
  Value inner_ = -1;
  Dim size_;
  std::vector<unsigned> flags_;
  std::vector<bool> is_cheap_;  // to compute again
  std::set<Value> kept_, parts_;
  std::string obstacle_;
};

}  // namespace pto
