// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/pair_products.hpp"

#include <algorithm>
#include <vector>

#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/uses.hpp"

namespace pto {
namespace {

// Finds the products of one graph that additions take.
class Pairs {
 public:
  explicit Pairs(const Graph& graph) : graph_(graph), uses_(graph) {
    is_expensive_.resize(graph_.nodes().size());
    for (Value v = 0; v < count(); ++v) is_expensive_[size_t(v)] = is_expensive(graph_[v]);
    taken_.resize(graph_.nodes().size(), -1);
    for (Value v = 0; v < count(); ++v)
      if (may_be_taken(v))
        for (const auto& [user, operand] : uses_.of(v))
          taken_[size_t(user)] = static_cast<int64_t>(operand);
  }

  // The number of the operand that a node takes, or -1.
  int64_t taken(Value v) const { return taken_[size_t(v)]; }

 private:
  Value count() const { return static_cast<Value>(graph_.nodes().size()); }

  // A kernel may keep an expensive value for later, which then is a value of its own.
  bool is_expensive(const Node& node) const {
    if (!is_elementwise(node.op)) return false;
    return operation(node.op).facts.is_expensive ||
           std::any_of(node.operands.begin(), node.operands.end(),
                       [&](Value operand) { return is_expensive_[size_t(operand)]; });
  }

  bool may_be_taken(Value v) const {
    const Node& node = graph_[v];
    const bool is_float = node.type.dtype == DType::F32 || node.type.dtype == DType::F64;
    const auto& uses = uses_.of(v);
    return node.op == Opcode::mul && is_float && !uses.empty() && !uses_.is_output(v) &&
           !is_expensive_[size_t(v)] &&
           std::all_of(uses.begin(), uses.end(), [&](const Uses::Use& use) {
             const Node& user = graph_[use.user];
             return taken_[size_t(use.user)] < 0 &&
                    (user.op == Opcode::add || user.op == Opcode::sub || user.op == Opcode::sum) &&
                    std::count(user.operands.begin(), user.operands.end(), v) == 1;
           });
  }

  const Graph& graph_;
  const Uses uses_;
  std::vector<bool> is_expensive_;
  std::vector<int64_t> taken_;
};

}  // namespace

Graph pair_products(const Graph& graph) {
  const Pairs pairs(graph);
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
    Node node = with_bodies(old, pair_products);
    if (pairs.taken(v) >= 0)
      node.hints = with_hint(node.hints, {"takes_product", {pairs.taken(v)}, ""});
    return b.copy(node, node.operands);
  });
}

}  // namespace pto
