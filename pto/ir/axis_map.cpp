// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/axis_map.hpp"

#include <algorithm>

namespace pto {
namespace {

bool is_one(const Dim& dim) { return dim.is_constant() && dim.value() == 1; }

AxisMap broadcast_operand(const Dims& from, const Dims& to, const AxisMap& map) {
  const size_t shift = to.size() - from.size();
  AxisMap result(from.size(), -1);
  for (size_t i = 0; i < from.size(); ++i)
    if (!is_one(from[i])) result[i] = map[i + shift];
  return result;
}

AxisMap reshape_operand(const Dims& from, const Dims& to, const AxisMap& map) {
  AxisMap kept;
  for (size_t i = 0; i < to.size(); ++i)
    if (!is_one(to[i])) kept.push_back(map[i]);
  AxisMap result(from.size(), -1);
  size_t next = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (is_one(from[i])) continue;
    if (next < kept.size()) result[i] = kept[next];
    ++next;
  }
  if (next != kept.size())
    fail({"reshape from " + text(from) + " to " + text(to) + " regroups elements inside a kernel",
          "a fused kernel can insert or remove axes of size 1 only",
          "reshape the argument before the call, or the result after it"});
  return result;
}

}  // namespace

Dims iteration_space(const Dims& shape) {
  Dims space;
  for (const Dim& dim : shape)
    if (!is_one(dim)) space.push_back(dim);
  return space;
}

AxisMap own_map(const Dims& shape) {
  AxisMap map(shape.size(), -1);
  int next = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!is_one(shape[i])) map[i] = next++;
  return map;
}

AxisMap operand_map(const Graph& graph, const Node& node, size_t index, const AxisMap& map) {
  const Dims& from = graph[node.operands[index]].type.shape;
  if (is_elementwise(node.op)) return map;
  switch (node.op) {
    case Opcode::broadcast:
      return broadcast_operand(from, node.type.shape, map);
    case Opcode::reshape:
      return reshape_operand(from, node.type.shape, map);
    case Opcode::transpose: {
      AxisMap result(from.size());
      for (size_t i = 0; i < map.size(); ++i)
        result[static_cast<size_t>(node.attributes.axes[i])] = map[i];
      return result;
    }
    default:
      fail({"'" + std::string(info(node.op).name) + "' cannot run inside a fused kernel",
            "fused kernels hold element-wise operations, reductions, broadcasts and transposes",
            "compute it outside of the compiled function"});
  }
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
