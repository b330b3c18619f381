// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/move_transpose_late.hpp"

#include <algorithm>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"
#include "pto/passes/rewrite.hpp"
#include "pto/passes/turned_axes.hpp"

namespace pto {
namespace {

using Answer = std::optional<Value>;

// Returns what a broadcast repeats, in the rank and the order before the transpose; nothing where
// its elements would come in another order.
Answer unturned_source(GraphBuilder& b, Value source, const Axes& axes) {
  const Dims shape = b.type(source).shape;
  if (shape.empty()) return source;
  const size_t more = axes.size() - shape.size();
  Dims whole(axes.size(), Dim(1));
  std::copy(shape.begin(), shape.end(), whole.begin() + std::ptrdiff_t(more));
  if (!keeps_order(whole, axes)) return std::nullopt;
  return b.reshape(source, unturned(whole, axes));
}

// Returns a value of which `v` is the transpose; nothing where it would have to be computed.
Answer unturned_value(GraphBuilder& b, Value v, const Axes& axes) {
  const Node node = b.node(v);
  if (node.op == Opcode::transpose && node.attributes.axes == axes) return node.operands[0];
  if (node.op != Opcode::broadcast) return std::nullopt;
  const Answer source = unturned_source(b, node.operands[0], axes);
  if (!source) return std::nullopt;
  return b.broadcast(*source, unturned(node.type.shape, axes));
}

std::optional<std::vector<Value>> all_unturned(GraphBuilder& b, const std::vector<Value>& values,
                                               const Axes& axes) {
  std::vector<Value> found;
  for (const Value v : values) {
    const Answer one = unturned_value(b, v, axes);
    if (!one) return std::nullopt;
    found.push_back(*one);
  }
  return found;
}

// Returns the axes of the first operand that is transposed, if it is one of tensors alike.
Axes axes_of_operands(const GraphBuilder& b, const std::vector<Value>& tensors) {
  for (const Value v : tensors)
    if (const Axes axes = turning_axes(b.node(v)); !axes.empty()) return axes;
  return {};
}

Answer move_elementwise(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, node.operands);
  if (axes.empty()) return std::nullopt;
  const auto operands = all_unturned(b, node.operands, axes);
  if (!operands) return std::nullopt;
  return b.transpose(b.copy(node, *operands), axes);
}

Answer move_reduction(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, node.operands);
  if (axes.empty()) return std::nullopt;
  Axes folded;
  for (const int64_t axis : node.attributes.axes) folded.push_back(axes[static_cast<size_t>(axis)]);
  if (is_float(node.type.dtype) && !std::is_sorted(folded.begin(), folded.end()))
    return std::nullopt;  // sums round, and of zeros of either sign the first or last is largest
  std::sort(folded.begin(), folded.end());
  const Value x = b.node(node.operands[0]).operands[0];
  return b.transpose(b.reduce(node.op, x, folded), axes);
}

Answer move_concat(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, node.operands);
  if (axes.empty()) return std::nullopt;
  const auto parts = all_unturned(b, node.operands, axes);
  if (!parts) return std::nullopt;
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  return b.transpose(b.concat(*parts, axes[axis]), axes);
}

Answer move_scan(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, node.operands);
  if (axes.empty()) return std::nullopt;
  const auto axis = static_cast<size_t>(node.attributes.axes[0]);
  const Value x = b.node(node.operands[0]).operands[0];
  return b.transpose(b.along(node.op, {x}, axes[axis]), axes);
}

Answer move_broadcast(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, node.operands);
  if (axes.empty() || axes.size() != node.type.shape.size()) return std::nullopt;
  const Value x = b.node(node.operands[0]).operands[0];
  return b.transpose(b.broadcast(x, unturned(node.type.shape, axes)), axes);
}

std::vector<int64_t> unturned_steps(const Node& part, const Axes& axes) {
  return part.attributes.axes.empty() ? part.attributes.axes : unturned(part.attributes.axes, axes);
}

Answer move_view(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, {node.operands[0]});
  if (axes.empty()) return std::nullopt;
  const std::vector<Value> offsets(node.operands.begin() + 1, node.operands.end());
  const Value x = b.node(node.operands[0]).operands[0];
  return b.transpose(b.view(x, unturned(offsets, axes), unturned(node.type.shape, axes),
                            unturned_steps(node, axes)),
                     axes);
}

Answer move_update(GraphBuilder& b, const Node& node) {
  const std::vector<Value> tensors = {node.operands[0], node.operands[1]};
  const Axes axes = axes_of_operands(b, tensors);
  if (axes.empty()) return std::nullopt;
  const auto both = all_unturned(b, tensors, axes);
  if (!both) return std::nullopt;
  const std::vector<Value> offsets(node.operands.begin() + 2, node.operands.end());
  return b.transpose(
      b.update((*both)[0], (*both)[1], unturned(offsets, axes), unturned_steps(node, axes)), axes);
}

Answer merge_transposes(GraphBuilder& b, const Node& node) {
  const Node inner = b.node(node.operands[0]);
  if (inner.op != Opcode::transpose) return std::nullopt;
  return turned(b, inner.operands[0], composed(inner.attributes.axes, node.attributes.axes));
}

// --- reshapes ------------------------------------------------------------------------------------

// The axes of each group lie beside each other before the transpose too: they become others there.
Answer move_reshape(GraphBuilder& b, const Node& node) {
  const Axes axes = axes_of_operands(b, node.operands);
  if (axes.empty()) return std::nullopt;
  const Dims shape_of_turned = b.type(node.operands[0]).shape;
  if (keeps_order(shape_of_turned, axes))
    return b.reshape(b.node(node.operands[0]).operands[0], node.type.shape);
  auto groups = regrouped(shape_of_turned, node.type.shape);
  if (!groups) return std::nullopt;
  for (const Regrouped& g : *groups)
    for (size_t i = g.from; i + 1 < g.from_end; ++i)
      if (axes[i + 1] != axes[i] + 1) return std::nullopt;
  std::sort(groups->begin(), groups->end(),
            [&](const Regrouped& x, const Regrouped& y) { return axes[x.from] < axes[y.from]; });
  Dims shape;
  Axes order(node.type.shape.size());
  for (const Regrouped& g : *groups)
    for (size_t j = g.to; j < g.to_end; ++j) {
      order[j] = int64_t(shape.size());
      shape.push_back(node.type.shape[j]);
    }
  return turned(b, b.reshape(b.node(node.operands[0]).operands[0], shape), order);
}

Answer move_any(GraphBuilder& b, const Node& node) {
  if (is_elementwise(node.op)) return move_elementwise(b, node);
  if (info(node.op).family == Family::Reduce) return move_reduction(b, node);
  switch (node.op) {
    case Opcode::transpose:
      return merge_transposes(b, node);
    case Opcode::broadcast:
      return move_broadcast(b, node);
    case Opcode::reshape:
      return move_reshape(b, node);
    case Opcode::view:
      return move_view(b, node);
    case Opcode::update:
      return move_update(b, node);
    case Opcode::concat:
      return move_concat(b, node);
    case Opcode::cumsum:
    case Opcode::cumprod:
    case Opcode::cummax:
    case Opcode::cummin:
      return move_scan(b, node);
    default:
      return std::nullopt;
  }
}

}  // namespace

Graph move_transpose_late(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, move_any, notes);
}

}  // namespace pto
