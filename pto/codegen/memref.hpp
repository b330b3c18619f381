// SPDX-License-Identifier: Apache-2.0
// MemRef: where a tensor lies in memory, as C++ expressions over the variables of a program.
//
//     MemRef x = dense_memref("v3", {DType::F32, {Dim::symbol(0), 64}});
//     MemRef row = part_of(x, {"i", "0"}, {1, 64});     // row.data == "v3 + i * 64"
//     MemRef flat = with_shape(row, {64});
//
// Thread safety: plain values.
#pragma once

#include <algorithm>
#include <climits>
#include <optional>
#include <string>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// The axes that may not begin where a step of the axis in front of them ends: those from `first` to
// `last`. Any two neighbours elsewhere are one axis in memory.
struct AxisGaps {
  int first = INT_MAX, last = 0;

  static AxisGaps everywhere() { return {0, INT_MAX}; }
  void add(size_t axis) {
    if (axis == 0) return;  // nothing lies in front
    first = std::min(first, static_cast<int>(axis));
    last = std::max(last, static_cast<int>(axis));
  }
  // Says whether there may be a gap between an axis and a later one, the next that has elements.
  bool between(int axis, int next) const { return axis < last && next >= first; }
};

struct MemRef {
  std::string data;  // of the type Stored<element>*
  Type type;
  std::vector<std::string> strides;  // in elements, one an axis
  StrideClass layout = StrideClass::Contiguous;
  AxisGaps gaps = {};
  // The tensor of the call whose elements these are, if it is a constant, and the axis of it that
  // each axis is; -1: none.
  int constant = -1;
  std::vector<int> axes = {};
  // The variable that says in which pages the elements lie while nothing lies here; "": none.
  std::string pages = "";
};

MemRef dense_memref(const std::string& data, const Type& type);

// Returns where the elements of a part lie; `offsets` and `sizes` have one entry an axis, `steps`
// too, or none where they are 1.
MemRef part_of(const MemRef& whole, const std::vector<std::string>& offsets, const Dims& sizes,
               const std::vector<int64_t>& steps = {});

// Returns the same elements in another shape, which cuts axes, or joins those that lie as one; null
// where only a copy has that shape.
std::optional<MemRef> reshaped(const MemRef& from, const Dims& shape);

// Return the same elements in another shape: with axes of size 1 put in or taken out, whose other
// sizes are the same at the call, or in any shape where the place is dense; with axes in another
// order; with axes repeated.
MemRef with_shape(const MemRef& from, const Dims& shape);
MemRef transposed(const MemRef& from, const std::vector<int64_t>& axes);
MemRef broadcast_to(const MemRef& from, const Dims& shape);

// Returns the strides that are numbers, each as an expression; "" for others.
std::vector<std::string> known_strides(const MemRef& tensor);

// Spells a number of elements as an expression that does not wrap.
std::string element_count(const Dims& shape);

}  // namespace pto
