// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/kernel_of_tile.hpp"

#include <string>

#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

// Says whether a node counts along an axis.
bool counts_along(const Node& node, int axis) {
  return node.op == Opcode::iota && node.attributes.axes[0] == axis;
}

bool counts_along(const Graph& body, const std::vector<int>& axes) {
  for (size_t v = 0; v < body.nodes().size(); ++v)
    if (counts_along(body.nodes()[v], axes[v])) return true;
  return false;
}

}  // namespace

TileKernel kernel_of_tile(const Graph& body, const std::vector<int> (&axes)[kCuts],
                          const Dim* const (&parts)[kCuts]) {
  GraphBuilder b(body.name());
  TileKernel made;
  Value starts[kCuts];
  for (int cut = 0; cut < kCuts; ++cut) {
    if (parts[cut] == nullptr || !counts_along(body, axes[cut])) continue;
    starts[cut] = b.input(unused_name(body, "start" + std::to_string(cut)), DType::I64, {});
    made.starts.push_back(cut);
  }
  std::vector<Value> place;
  for (Value v = 0; v < static_cast<Value>(body.nodes().size()); ++v) {
    Node node = body[v];
    for (int cut = 0; cut < kCuts; ++cut)
      if (const int axis = parts[cut] ? axes[cut][static_cast<size_t>(v)] : -1; axis >= 0)
        node.type.shape[static_cast<size_t>(axis)] = *parts[cut];
    for (Value& operand : node.operands) operand = place[static_cast<size_t>(operand)];
    Value copy = b.copy(node, node.operands);
    for (const int cut : made.starts)
      if (counts_along(node, axes[cut][static_cast<size_t>(v)]))
        copy = b.binary(Opcode::add, copy, b.broadcast(starts[cut], node.type.shape));
    place.push_back(copy);
    b.add_locations(copy, node.locations);
  }
  for (const Value v : body.outputs()) b.output(place[static_cast<size_t>(v)]);
  made.body = b.build();
  return made;
}

}  // namespace pto
