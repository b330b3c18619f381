// SPDX-License-Identifier: Apache-2.0
// Algebra rules: the table of simplify_algebra; a row replaces one pattern by a shorter one.
//
//     {"add_negated", "add(x, neg(y))", "sub(x, y)"},
//
// Invariant: a rule leaves the interpreter's result bit-equal, -0 and NaN included, for all element
// types that its operations take. The first rule that takes a node counts; a reduction tries its
// own rules before those of all reductions.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <span>

#include "pto/ir/graph.hpp"

namespace pto {

struct AlgebraRule {
  const char* name;
  const char* pattern;      // see pattern.hpp; text for readers where `compute` is set
  const char* replacement;  // the same
  bool (*applies)(const Node&) = nullptr;  // null: to every node of the pattern
  // Does what patterns cannot say: returns the replacement, or nothing for another node. The
  // pattern begins with the operation, or with "reduce(", which stands for all reductions.
  std::optional<Value> (*compute)(GraphBuilder&, const Node&) = nullptr;
};

extern const std::span<const AlgebraRule> kAlgebraRules;

// Returns what a rule of the table makes of a node, or nothing.
std::optional<Value> apply(const AlgebraRule& rule, GraphBuilder& b, const Node& node);

// Returns the replacement by the first rule that takes the node, or nothing.
std::optional<Value> apply_first(GraphBuilder& b, const Node& node);

}  // namespace pto
