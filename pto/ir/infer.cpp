// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/infer.hpp"

#include <algorithm>

#include "pto/base/text.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {

bool may_equal(const Dim& a, const Dim& b) {
  return a == b || !a.is_constant() || !b.is_constant();
}

bool accepts(Opcode op, DType dtype) { return operation(op).dtypes >> static_cast<int>(dtype) & 1; }

std::vector<int64_t> normal_axes(Opcode op, std::vector<int64_t> axes, size_t rank) {
  const std::string name(info(op).name);
  const auto r = static_cast<int64_t>(rank);
  for (int64_t& axis : axes) {
    if (axis < -r || axis >= r)
      fail({name + ": axis " + text(axis) + " of a tensor of rank " + text(r),
            "axes lie between -rank and rank-1", "choose an existing axis"},
           ErrorKind::Index);
    axis += axis < 0 ? r : 0;
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail({name + ": an axis is named twice in " + text(axes), "an axis is reduced once",
          "name every axis once"});
  return axes;
}

Type infer(const Node& node, const std::vector<const Node*>& operands) {
  const OpcodeInfo& row = info(node.op);
  const std::string name(row.name);
  if (row.arity >= 0 && operands.size() != static_cast<size_t>(row.arity))
    fail({name + ": has " + std::to_string(operands.size()) + " operands",
          name + " takes " + std::to_string(row.arity), "pass that many operands"});
  return operation(node.op).infer(node, operands);
}

bool is_number(const Type& type) {
  return type.shape.empty() && (is_integer(type.dtype) || type.dtype == DType::Bool);
}

bool is_count(const Graph& graph, const Node& node) {
  if (node.op != Opcode::sum) return false;
  const Node* of = &graph[node.operands[0]];
  while (of->op == Opcode::broadcast || of->op == Opcode::reshape) of = &graph[of->operands[0]];
  if (of->op != Opcode::constant) return false;
  return std::visit([](auto value) { return value == 1; }, of->attributes.value);
}

Dim reduced_size(const Graph& graph, const Node& node) {
  Dim size = 1;
  const Dims& shape = graph[node.operands[0]].type.shape;
  for (const int64_t axis : node.attributes.axes) size = size * shape[static_cast<size_t>(axis)];
  return size;
}

}  // namespace pto
