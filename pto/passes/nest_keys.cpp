// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/nest_keys.hpp"

#include <vector>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"

namespace pto {
namespace {

// Collects guards between two symbols, whose loop nests are one. Sizes equal to an expression stay
// apart, since a kernel loops over the sizes as they are written.
std::vector<Guard> symbol_guards(const Graph& graph) {
  std::vector<Guard> found;
  for (const Guard& guard : graph.guards())
    if (guard.a.is_symbol() && guard.b.is_symbol()) found.push_back(guard);
  return found;
}

Dim with_representatives(const EqualSizes& equal, const Dim& dim) {
  if (dim.is_constant() || dim.is_symbol()) return equal.representative(dim);
  return Dim::make(dim.op(), with_representatives(equal, dim.left()),
                   with_representatives(equal, dim.right()));
}

}  // namespace

NestKeys::NestKeys(const Graph& graph) : graph_(graph), equal_(symbol_guards(graph)) {}

std::string NestKeys::of_space(const Dims& space) const {
  Dims same;
  for (const Dim& dim : space) same.push_back(with_representatives(equal_, dim));
  return text(same);
}

std::string NestKeys::of(const Node& node) const {
  const Reduction r = reduction(graph_, node);
  std::string key = of_space(r.space);
  for (int axis : r.axes) key += "/" + std::to_string(axis);
  return key;
}

bool folds(const Graph& graph, const Node& node) {
  return info(node.op).family == Family::Reduce && !reduction(graph, node).axes.empty();
}

}  // namespace pto
