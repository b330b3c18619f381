// SPDX-License-Identifier: Apache-2.0
// MemRef: where a tensor lies in memory, as C++ expressions over the variables of a program.
//
//     MemRef x = dense_memref("v3", {DType::F32, {Dim::symbol(0), 64}});
//     MemRef row = part_of(x, {"i", "0"}, {1, 64});     // row.data == "v3 + i * 64"
//     MemRef flat = with_shape(row, {64});
//
// Thread safety: plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct MemRef {
  std::string data;  // of the type Stored<element>*
  Type type;
  std::vector<std::string> strides;  // in elements, one an axis
  StrideClass layout = StrideClass::Contiguous;
  int dense_from = 0;  // the axes from there on lie as those of dense memory
  // The tensor of the call whose elements these are, if it is a constant, and the axis of it that
  // each axis is; -1: none.
  int constant = -1;
  std::vector<int> axes = {};
  // The variable that says in which pages the elements lie while nothing lies here; "": none.
  std::string pages = "";
};

MemRef dense_memref(const std::string& data, const Type& type);

// Returns where the elements of a part lie; `offsets` and `sizes` have one entry an axis.
MemRef part_of(const MemRef& whole, const std::vector<std::string>& offsets, const Dims& sizes);

// Returns the same elements in another shape, which cuts axes, or joins those that lie as one; null
// where only a copy has that shape.
std::optional<MemRef> reshaped(const MemRef& from, const Dims& shape);

// Return the same elements in another shape that `reshaped` reaches; with axes in another order;
// with axes repeated.
MemRef with_shape(const MemRef& from, const Dims& shape);
MemRef transposed(const MemRef& from, const std::vector<int64_t>& axes);
MemRef broadcast_to(const MemRef& from, const Dims& shape);

// Returns the strides that are numbers, each as an expression; "" for others.
std::vector<std::string> known_strides(const MemRef& tensor);

// Spells a number of elements as an expression that does not wrap.
std::string element_count(const Dims& shape);

}  // namespace pto
