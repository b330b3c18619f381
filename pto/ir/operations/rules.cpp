// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/operations/rules.hpp"

#include <algorithm>
#include <cmath>

#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/interpret.hpp"

namespace pto {
namespace {

std::string text_of_dtypes(uint32_t set) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kDTypes; ++i)
    if (set >> i & 1) names.push_back(name(static_cast<DType>(i)));
  return joined(names, " ", [](std::string_view n) { return std::string(n); });
}

}  // namespace

std::string label(Opcode op) { return std::string(info(op).name); }

void require_dtype(Opcode op, DType dtype) {
  if (accepts(op, dtype)) return;
  fail({label(op) + ": not defined on " + std::string(name(dtype)),
        label(op) + " takes " + text_of_dtypes(operation(op).dtypes), "cast the operand first"},
       ErrorKind::Type);
}

void require_same_dtype(Opcode op, const Type& a, const Type& b) {
  if (a.dtype == b.dtype) return;
  fail({label(op) + ": left is " + std::string(name(a.dtype)) + " but right is " +
            std::string(name(b.dtype)),
        "both operands must have one dtype; nothing is cast silently", "cast one of the operands"},
       ErrorKind::Type);
}

void require_same_shape(Opcode op, const Type& a, const Type& b) {
  if (a.shape == b.shape) return;
  fail({label(op) + ": operands have shapes " + text(a.shape) + " and " + text(b.shape),
        "operands of an element-wise operation have equal shapes in a graph",
        "insert a broadcast to the common shape"});
}

void require_scalar(Opcode op, const Type& type, std::string_view role) {
  if (type.dtype == DType::I64 && type.shape.empty()) return;
  fail({label(op) + ": " + std::string(role) + " is " + text(type) + " instead of i64[]",
        "positions and bounds are 64-bit integers of rank 0", "cast to i64 and reshape to []"},
       ErrorKind::Type);
}

size_t require_one_axis(const Node& node, const Dims& shape) {
  const auto& axes = node.attributes.axes;
  const auto rank = static_cast<int64_t>(shape.size());
  if (axes.size() == 1 && axes[0] >= 0 && axes[0] < rank) return static_cast<size_t>(axes[0]);
  fail({label(node.op) + ": axes " + text(axes) + " of the shape " + text(shape),
        label(node.op) + " works along one axis, which counts from 0", "name one existing axis"},
       ErrorKind::Index);
}

void add_fits(std::vector<SizePair>& pairs, const Dims& from, const Dims& to) {
  for (size_t i = 0; i < from.size() && i < to.size(); ++i)
    pairs.push_back({from[from.size() - 1 - i], to[to.size() - 1 - i], true});
}

AxisMap same_map(const Node&, size_t, const Dims&, const AxisMap& map) { return map; }

bool rows_of_elements(const RowsOf& rows) {
  return rows.all_mapped && rows.many.attributes == rows.one.attributes;
}

bool has_axes_behind_batch(const RowsOf& rows) {
  const auto rank = [](const Node& node) { return static_cast<int64_t>(node.type.shape.size()); };
  const int64_t ahead = rank(rows.many) - rank(rows.one);
  std::vector<int64_t> moved;
  for (const int64_t axis : rows.one.attributes.axes) moved.push_back(axis + ahead);
  return rows.all_mapped && ahead > 0 && rows.many.attributes.axes == moved;
}

std::vector<Bounded> one_result(Bounded result) {
  std::vector<Bounded> results;
  results.push_back(std::move(result));
  return results;
}

void allow_any_value(Bounded& result) {
  std::fill(result.bounds.begin(), result.bounds.end(), INFINITY);
}

}  // namespace pto
