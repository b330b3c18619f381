// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/product_group.hpp"

#include <algorithm>

#include "pto/passes/tile_axes.hpp"

namespace pto {
namespace {

constexpr int64_t kLeastElements = 16 << 10;  // of a product that is worth a loop
constexpr int64_t kFewColumns = 16;           // that no loop cuts: kernels know their number then

// Says whether all rows of a tensor are multiplied by one matrix.
bool has_one_right(const Graph& graph, const Node& node) {
  return node.op == Opcode::matmul && graph[node.operands[1]].type.shape.size() == 2 &&
         graph[node.operands[0]].type.shape.size() >= 2;
}

// Says whether an operand is a constant tensor of f32, or one transposed.
bool is_constant_matrix(const Graph& graph, Value v) {
  while (graph[v].op == Opcode::transpose) v = graph[v].operands[0];
  return graph[v].type.dtype == DType::F32 && find_hint(graph[v], "constant") != nullptr;
}

}  // namespace

ProductGroup::ProductGroup(const Graph& graph, Value product)
    : graph_(graph), uses_(graph), product_(product) {
  const Node& node = graph[product];
  if (!has_one_right(graph, node)) return;
  const Dim all = pto::product(node.type.shape);
  if (all.is_constant() && all.value() < kLeastElements) return;
  const Dims& shape = node.type.shape;
  axes_[1] = static_cast<int>(shape.size()) - 1;
  while (axes_[0] < axes_[1] - 1 && is_one(shape[static_cast<size_t>(axes_[0])])) ++axes_[0];
  for (const int cut : {0, 1}) cuts_[cut] = !is_one(shape[static_cast<size_t>(axes_[cut])]);
  const Dim& columns = shape.back();
  const bool are_few = columns.is_constant() && columns.value() <= kFewColumns;
  if (are_few && find_hint(node, "cube_n") == nullptr) cuts_[1] = false;
  tiled_[product] = {{axes_[0], axes_[1]}};
  gather();
  packs_right_ = is_constant_matrix(graph, node.operands[1]);
  pays_ = !members_.empty() && has_all_users(product) && !leaving().empty();
}

std::vector<Value> ProductGroup::leaving() const {
  std::vector<Value> found;
  for (const auto& [v, tiled] : tiled_)
    if (!has_all_users(v)) found.push_back(v);
  return found;
}

bool ProductGroup::is_member(Value v) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.fused == v; });
}

bool ProductGroup::reads(const Node& node) const {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](Value v) { return has(v); });
}

bool ProductGroup::has_all_users(Value v) const {
  const auto& uses = uses_.of(v);
  return !uses_.is_output(v) &&
         std::all_of(uses.begin(), uses.end(), [&](const Uses::Use& use) { return has(use.user); });
}

void ProductGroup::gather() {
  for (Value v = product_ + 1; v < static_cast<Value>(graph_.nodes().size()); ++v) {
    const Node& node = graph_[v];
    if (!reads(node)) continue;
    if (node.op == Opcode::result && is_member(node.operands[0]))
      add_result(v);
    else if (node.op != Opcode::fused || !add_member(v))
      return;
  }
}

// The first kernel may need whole rows; then no cut of columns is left for the others.
bool ProductGroup::add_member(Value v) {
  Member member{v, {}};
  bool fits[kCuts];
  for (int cut = 0; cut < kCuts; ++cut) fits[cut] = cuts_[cut] && follow(graph_[v], cut, member);
  const bool drops_columns = cuts_[1] && !fits[1];
  if (fits[0] != cuts_[0] || (drops_columns && !members_.empty())) return false;
  if (!fits[0] && !fits[1]) return false;
  cuts_[1] = fits[1];
  members_.push_back(std::move(member));
  return true;
}

// Follows a cut from all operands that the group makes; they must agree.
bool ProductGroup::follow(const Node& node, int cut, Member& member) const {
  std::vector<int>& axes = member.axes[cut];
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto known = tiled_.find(node.operands[i]);
    if (known == tiled_.end()) continue;
    const int axis = known->second.axes[cut];
    auto found = axis < 0 ? std::nullopt : tile_axes(node.body(), node.body().inputs()[i], axis);
    if (!found || (!axes.empty() && axes != *found)) return false;
    axes = std::move(*found);
  }
  return true;
}

void ProductGroup::add_result(Value v) {
  const Node& node = graph_[v];
  const auto member = std::find_if(members_.begin(), members_.end(), [&](const Member& one) {
    return one.fused == node.operands[0];
  });
  const Value out =
      graph_[member->fused].body().outputs()[static_cast<size_t>(node.attributes.index)];
  Tiled& tiled = tiled_[v];
  for (int cut = 0; cut < kCuts; ++cut)
    tiled.axes[cut] = cuts_[cut] ? member->axes[cut][static_cast<size_t>(out)] : -1;
}

}  // namespace pto
