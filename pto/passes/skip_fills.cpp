// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/skip_fills.hpp"

#include "pto/ir/made.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/uses.hpp"
#include "pto/passes/loop_nest.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {
namespace {

// Says whether iterations 0 to before `size` write all elements of the k-th tensor that they carry.
bool writes_all(const Graph& body, size_t k, const Dim& size) {
  const Value first = body.inputs()[1 + k];
  const Node& update = body[body.outputs()[k]];
  if (update.op != Opcode::update || update.operands[0] != first || !Uses(body).is_read_once(first))
    return false;
  const Dims &whole = update.type.shape, &part = body[update.operands[1]].type.shape;
  int places = 0;  // axes of them: with two, the diagonal alone is written
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    const Value offset = update.operands[2 + axis];
    const bool is_place = offset == body.inputs()[0] && whole[axis] == size && part[axis] == Dim(1);
    if (!is_place && !(whole_number(body[offset]) == 0 && part[axis] == whole[axis])) return false;
    places += is_place;
  }
  return places == 1;
}

}  // namespace

Graph skip_fills(const Graph& graph) {
  return rebuild(graph, graph.outputs(), [](GraphBuilder& b, const Node& old, Value) {
    Node node = with_bodies(old, skip_fills);
    if (node.op != Opcode::loop) return b.copy(node, node.operands);
    const std::optional<Dim> size =
        counts_by_one(b.graph(), node) ? stop_of(b.graph(), node) : std::nullopt;
    for (size_t k = 0; size && k < node.body().outputs().size(); ++k) {
      Value& operand = node.operands[first_carried(node) + k];
      if (!constant_of(b, operand) || !writes_all(node.body(), k, *size)) continue;
      // Its number tells an empty tensor from others: below 0 from those that other passes make.
      operand = b.empty(b.type(operand), -1 - static_cast<int64_t>(b.count()));
    }
    return b.copy(node, node.operands);
  });
}

}  // namespace pto
