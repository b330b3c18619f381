// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/tile_axes.hpp"

#include <algorithm>

#include "pto/ir/axis_map.hpp"

namespace pto {
namespace {

using Places = std::vector<std::optional<int>>;  // of nodes; nothing: not needed

// Follows an axis of `output` to what it is computed from; -1 where all parts need the same
// elements. Returns nothing where parts need a node in two ways.
std::optional<Places> follow(const Graph& body, Value output, int axis) {
  Places places(body.nodes().size());
  places[static_cast<size_t>(output)] = axis;
  for (Value v = output; v >= 0; --v) {
    const auto place = places[static_cast<size_t>(v)];
    if (!place) continue;
    const Node& node = body[v];
    AxisMap map(node.type.shape.size(), -1);
    if (*place >= 0) map[static_cast<size_t>(*place)] = 0;
    const bool folds = info(node.op).family == Family::Reduce;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const AxisMap needed = folds ? map : operand_map(body, node, i, map);
      const auto at = std::find(needed.begin(), needed.end(), 0);
      const int from = at == needed.end() ? -1 : static_cast<int>(at - needed.begin());
      auto& known = places[static_cast<size_t>(node.operands[i])];
      if (known && *known != from) return std::nullopt;
      known = from;
    }
  }
  return places;
}

// The same for the axis of `output` that comes from an axis of the input.
std::optional<Places> follow_to(const Graph& body, Value output, Value input, int axis) {
  const Dims& shape = body[output].type.shape;
  for (int of = 0; of < static_cast<int>(shape.size()); ++of) {
    if (is_one(shape[static_cast<size_t>(of)])) continue;
    auto places = follow(body, output, of);
    if (places && (*places)[static_cast<size_t>(input)] == axis) return places;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<int>> tile_axes(const Graph& body, Value input, int axis) {
  Places all(body.nodes().size());
  for (const Value output : body.outputs()) {
    const auto places = follow_to(body, output, input, axis);
    if (!places) return std::nullopt;
    for (size_t v = 0; v < all.size(); ++v) {
      if (!(*places)[v]) continue;
      if (all[v] && all[v] != (*places)[v]) return std::nullopt;
      all[v] = (*places)[v];
    }
  }
  std::vector<int> axes;
  for (const auto& place : all) axes.push_back(place.value_or(-1));
  return axes;
}

}  // namespace pto
