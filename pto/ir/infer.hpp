// SPDX-License-Identifier: Apache-2.0
// infer(): the type of a node by the rule of its operation; builder, parser and verifier call it.
//
//     Type type = infer(node, {&left, &right});
//
// Invariant: sizes that may be equal at run time (one of them is symbolic) count as equal here; the
// verifier asks for a guard.
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// Returns the type of a node with these operands. `node.type` counts where the operation leaves a
// choice: dtype and shape of input, scalar, constant, empty; dtype of cast and matmul; shape of
// broadcast, reshape, view, iota. Throws pto::Error: number of operands, dtypes, shapes,
// attributes.
Type infer(const Node& node, const std::vector<const Node*>& operands);

// True where the sizes can be equal: the same expression, or one is not a constant.
bool may_equal(const Dim& a, const Dim& b);

// True where an elementwise operation or reduction is defined on the type of its first operand (for
// `where`: its second).
bool accepts(Opcode op, DType dtype);

// Counts the axes from the front and sorts them. Throws pto::Error: out of range, repeated.
std::vector<int64_t> normal_axes(Opcode op, std::vector<int64_t> axes, size_t rank);

// Returns how many neighbours a part of this shape spans along each axis, where its elements lie
// some steps apart, or none are given. An empty part of steps spans less than nothing.
Dims span_of(const Dims& part, const std::vector<int64_t>& steps);

// Says whether a type is one whole number or truth value, which programs keep in variables.
bool is_number(const Type& type);

// Says whether a node counts the elements along some axes, as a sum of ones; reduced_size() is the
// count.
bool is_count(const Graph& graph, const Node& node);
Dim reduced_size(const Graph& graph, const Node& node);

}  // namespace pto
