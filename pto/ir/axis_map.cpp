// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/axis_map.hpp"

#include <algorithm>

#include "pto/ir/operations/operation.hpp"

namespace pto {
Dims iteration_space(const Dims& shape) {
  Dims space;
  for (const Dim& dim : shape)
    if (!is_one(dim)) space.push_back(dim);
  return space;
}

bool regroups(const Graph& graph, const Node& node) {
  return node.op == Opcode::reshape &&
         iteration_space(graph[node.operands[0]].type.shape) != iteration_space(node.type.shape);
}

std::optional<std::vector<Regrouped>> regrouped(const Dims& from, const Dims& to) {
  const auto size = [](const Dims& dims, size_t begin, size_t end) {
    return product({dims.begin() + std::ptrdiff_t(begin), dims.begin() + std::ptrdiff_t(end)});
  };
  std::vector<Regrouped> groups;
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    std::optional<Regrouped> found;
    for (size_t length = 2; !found && length <= from.size() - i + to.size() - j; ++length)
      for (size_t n = 1; !found && n < length; ++n) {
        const Regrouped one = {i, i + n, j, j + length - n};
        if (one.from_end > from.size() || one.to_end > to.size()) continue;
        if (size(from, i, one.from_end) == size(to, j, one.to_end)) found = one;
      }
    if (!found) return std::nullopt;
    groups.push_back(*found);
    i = found->from_end, j = found->to_end;
  }
  if (i < from.size() || j < to.size()) return std::nullopt;
  return groups;
}

AxisMap own_map(const Dims& shape) {
  AxisMap map(shape.size(), -1);
  int next = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!is_one(shape[i])) map[i] = next++;
  return map;
}

AxisMap operand_map(const Graph& graph, const Node& node, size_t index, const AxisMap& map) {
  const auto map_of = operation(node.op).operand_map;
  if (map_of != nullptr) return map_of(node, index, graph[node.operands[index]].type.shape, map);
  fail({"'" + std::string(info(node.op).name) + "' cannot run inside a fused kernel",
        "fused kernels hold element-wise operations, reductions, broadcasts and transposes",
        "compute it outside of the compiled function"});
}

Reduction reduction(const Graph& graph, const Node& node) {
  const Dims& shape = graph[node.operands[0]].type.shape;
  Reduction r{iteration_space(shape), {}, own_map(shape), own_map(shape)};
  for (int64_t axis : node.attributes.axes) {
    int& at = r.result[static_cast<size_t>(axis)];
    if (at >= 0) r.axes.push_back(at);
    at = -1;
  }
  std::sort(r.axes.begin(), r.axes.end());
  return r;
}

}  // namespace pto
