// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/comparisons.hpp"

#include "pto/ir/axis_map.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

class Comparisons {
 public:
  Comparisons(const Graph& graph, Node* count) : graph_(graph), count_(count) {}

  void add(Value condition) {
    const Node& node = graph_[condition];
    const Value inner = without_moves(condition);
    if (inner != condition) return add(inner);
    if (node.op == Opcode::logical_and)
      for (const Value operand : node.operands) add(operand);
    if (info(node.op).family != Family::Compare) return;
    const Value from = without_moves(node.operands[0]), to = without_moves(node.operands[1]);
    if (node.op == Opcode::gt && graph_[from].type.dtype == DType::Bool &&
        graph_[to].op == Opcode::constant)
      return add(from);  // a truth above 0
    const Value a = at_hand(node.operands[0]), b = at_hand(node.operands[1]);
    if (a < 0 || b < 0) return;
    std::string& names = count_->attributes.name;
    (names += names.empty() ? "" : " ") += info(node.op).name;
    count_->operands.insert(count_->operands.end(), {a, b});
  }

 private:
  // The truth from which a value is made; `amin` joins those of all elements.
  Value without_moves(Value v) const {
    for (const Node* node = &graph_[v];; node = &graph_[v = node->operands[0]])
      if (node->op != Opcode::broadcast && node->op != Opcode::cast &&
          node->op != Opcode::reshape && node->op != Opcode::amin)
        return v;
  }

  // The value, or where its elements lie, without anything to compute but a number; -1: nowhere.
  Value at_hand(Value v) const {
    while (graph_[v].op == Opcode::broadcast || graph_[v].op == Opcode::cast)
      v = graph_[v].operands[0];
    return graph_[v].type.shape.empty() || lies(v) ? v : -1;
  }
  bool lies(Value v) const {
    const Node& node = graph_[v];
    const bool moves = node.op == Opcode::view || node.op == Opcode::transpose ||
                       (node.op == Opcode::reshape && !regroups(graph_, node));
    return node.is_parameter() || (moves && lies(node.operands[0]));
  }

  const Graph& graph_;
  Node* const count_;
};

}  // namespace

void add_comparisons(const Graph& graph, Value condition, Node* count) {
  Comparisons(graph, count).add(condition);
}

}  // namespace pto
