// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/pair_products.hpp"

#include <algorithm>
#include <vector>

#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

// Finds the products of one graph that additions take.
class Pairs {
 public:
  explicit Pairs(const Graph& graph) : graph_(graph), users_(graph.nodes().size()) {
    for (Value v = 0; v < count(); ++v)
      for (const Value operand : graph_[v].operands) users_[size_t(operand)].push_back(v);
    for (const Value v : graph_.outputs()) users_[size_t(v)].push_back(-1);
    is_expensive_.resize(graph_.nodes().size());
    for (Value v = 0; v < count(); ++v) is_expensive_[size_t(v)] = is_expensive(graph_[v]);
    taken_.resize(graph_.nodes().size(), -1);
    for (Value v = 0; v < count(); ++v)
      if (may_be_taken(v))
        for (const Value user : users_[size_t(v)]) taken_[size_t(user)] = place_of(v, user);
  }

  // The number of the operand that a node takes, or -1.
  int64_t taken(Value v) const { return taken_[size_t(v)]; }

 private:
  Value count() const { return static_cast<Value>(graph_.nodes().size()); }

  int64_t place_of(Value v, Value user) const {
    const auto& all = graph_[user].operands;
    return std::find(all.begin(), all.end(), v) - all.begin();
  }

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
    const auto& users = users_[size_t(v)];
    return node.op == Opcode::mul && is_float && !users.empty() && !is_expensive_[size_t(v)] &&
           std::all_of(users.begin(), users.end(), [&](Value user) {
             if (user < 0 || taken_[size_t(user)] >= 0) return false;
             const Opcode op = graph_[user].op;
             return (op == Opcode::add || op == Opcode::sub || op == Opcode::sum) &&
                    std::count(users.begin(), users.end(), user) == 1;
           });
  }

  const Graph& graph_;
  std::vector<std::vector<Value>> users_;  // -1: the caller
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
