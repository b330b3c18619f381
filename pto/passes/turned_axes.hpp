// SPDX-License-Identifier: Apache-2.0
// Turned axes: transposes after which another axis is the last, so that what reads them gathers
// elements that lie apart.
//
//     const Axes axes = turning_axes(node);   // {1, 0} of a matrix's transpose
//     if (is_turned(node)) ...                // and these axes have several elements
//
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

// Axis i of a transpose is axis axes[i] before it.
using Axes = std::vector<int64_t>;

// Returns the axes of a transpose after which another axis is the last; none for other nodes.
inline Axes turning_axes(const Node& node) {
  const Axes& axes = node.attributes.axes;
  const bool turns =
      node.op == Opcode::transpose && !axes.empty() && axes.back() != int64_t(axes.size()) - 1;
  return turns ? axes : Axes();
}

// Puts what belongs to the axes of a transpose's result where it belongs before the transpose.
template <class T>
std::vector<T> unturned(const std::vector<T>& items, const Axes& axes) {
  std::vector<T> before = items;
  for (size_t i = 0; i < axes.size(); ++i) before[static_cast<size_t>(axes[i])] = items[i];
  return before;
}

// Returns the axes of the transpose by `second` of a transpose by `first`.
inline Axes composed(const Axes& first, const Axes& second) {
  Axes found;
  for (const int64_t axis : second) found.push_back(first[static_cast<size_t>(axis)]);
  return found;
}

// Returns the transpose of x by these axes: x itself where they are in order.
inline Value turned(GraphBuilder& b, Value x, const Axes& axes) {
  return std::is_sorted(axes.begin(), axes.end()) ? x : b.transpose(x, axes);
}

// Says whether only axes of one element change their places; `shape` is that of the result.
inline bool keeps_order(const Dims& shape, const Axes& axes) {
  int64_t last = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (is_one(shape[i])) continue;
    if (axes[i] < last) return false;
    last = axes[i];
  }
  return true;
}

// Says whether a node is the transpose of a tensor whose last axis is another one: a copy of a
// matrix reads and writes whole cache lines, where a kernel gathers elements.
inline bool is_turned(const Node& node) {
  const Axes axes = turning_axes(node);
  return !axes.empty() && !keeps_order(node.type.shape, axes);
}

}  // namespace pto
