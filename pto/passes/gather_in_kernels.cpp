// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/gather_in_kernels.hpp"

#include <algorithm>
#include <set>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/uses.hpp"
#include "pto/passes/remove_dead_nodes.hpp"

namespace pto {
namespace {

class Gathers {
 public:
  explicit Gathers(const Graph& graph) : graph_(graph), uses_(graph) {}

  Graph run() const {
    return rebuild(graph_, graph_.outputs(), [&](GraphBuilder& b, const Node& node, Value v) {
      if (names_rows(graph_[v]) && (is_for_kernels(v) || has_short_rows(graph_[v])))
        return in_kernel(b, node, node.operands);
      if (is_regrouped(v)) return regrouped_rows(b, node);
      return b.copy(node, node.operands);
    });
  }

 private:
  // Says whether a gather reads whole rows, of a size that pays, of a tensor that lies in memory.
  bool names_rows(const Node& node) const {
    constexpr int64_t kLeastBytes = 16;
    if (node.op != Opcode::gather || node.attributes.axes.size() != 1) return false;
    const Dims &rows = node.type.shape, &from = graph_[node.operands[0]].type.shape,
               &index = graph_[node.operands[1]].type.shape;
    const auto axis = static_cast<size_t>(node.attributes.axes[0]);
    const Dim& row = rows.back();
    const bool is_long = !row.is_constant() || row.value() * bytes(node.type.dtype) >= kLeastBytes;
    return is_long && axis + 1 < rows.size() && is_one(index.back()) && !is_one(from[axis]) &&
           graph_[source(node.operands[0])].op == Opcode::input && is_quick(node.operands[1]);
  }

  // Says whether a kernel copies rows faster than the step that copies elements at positions.
  static bool has_short_rows(const Node& gather) {
    constexpr int64_t kMostBytes = 128;
    const Dim& row = gather.type.shape.back();
    return row.is_constant() && row.value() * bytes(gather.type.dtype) <= kMostBytes;
  }

  // The value of which another one is the elements, addressed in another way.
  Value source(Value v) const {
    while (operation(graph_[v].op).kernel == KernelForm::Moved && !regroups(graph_, graph_[v]))
      v = graph_[v].operands[0];
    return v;
  }
  // Says whether each reader may compute positions: by few operations, which `seen` gets.
  bool is_quick(Value v, std::set<Value>* seen) const {
    constexpr size_t kMost = 24;
    const Node& node = graph_[v = source(v)];
    const bool is_there = node.op == Opcode::input || node.op == Opcode::view ||
                          is_number(node.type) || is_count(graph_, node);
    if (is_there) return true;
    if (operation(node.op).kernel != KernelForm::Element) return regroups(graph_, node);
    return !seen->insert(v).second ||
           (seen->size() <= kMost &&
            std::all_of(node.operands.begin(), node.operands.end(),
                        [&](Value operand) { return is_quick(operand, seen); }));
  }
  bool is_quick(Value v) const {
    std::set<Value> seen;
    return is_quick(v, &seen);
  }

  // Says whether kernels alone read a value, along its own axes.
  bool is_for_kernels(Value v) const {
    const auto& uses = uses_.of(v);
    return !uses_.is_output(v) && !uses.empty() &&
           std::all_of(uses.begin(), uses.end(), [&](const Uses::Use& use) {
             const Node& user = graph_[use.user];
             const KernelForm form = operation(user.op).kernel;
             const bool is_moved = form == KernelForm::Moved && !regroups(graph_, user);
             return form == KernelForm::Element || form == KernelForm::Reduction ||
                    (is_moved && is_for_kernels(use.user));
           });
  }

  // Says whether a reshape cuts the rows of a gather, which nobody else reads, into several axes.
  bool is_regrouped(Value v) const {
    const Node& node = graph_[v];
    if (node.op != Opcode::reshape || !is_for_kernels(v)) return false;
    const Value of = node.operands[0];
    const Node& gather = graph_[of];
    if (!names_rows(gather) || gather.attributes.axes[0] != 0) return false;
    const Dims &from = gather.type.shape, &to = node.type.shape;
    return uses_.is_read_once(of) && to.size() > from.size() &&
           std::equal(from.begin() + 1, from.end(), to.end() - (from.size() - 1)) &&
           iteration_space(graph_[gather.operands[1]].type.shape).size() == 1;
  }

  static Value in_kernel(GraphBuilder& b, Node node, const std::vector<Value>& operands) {
    node.hints = with_hint(node.hints, {"in_kernel", {}, "rows are read where they lie"});
    return b.copy(node, operands);
  }

  // `node`: the reshape, with its operand in the new graph.
  static Value regrouped_rows(GraphBuilder& b, const Node& node) {
    Node gather = b.node(node.operands[0]);
    const Dims& to = node.type.shape;
    const Dims& from = b.node(gather.operands[0]).type.shape;
    const size_t cut = to.size() - from.size() + 1;  // axes in the place of the first one
    Dims apart(cut, 1), whole(to.begin(), to.begin() + static_cast<long>(cut));
    Dims places = whole;
    apart[0] = whole[0] = from[0];
    apart.insert(apart.end(), from.begin() + 1, from.end());
    whole.insert(whole.end(), from.begin() + 1, from.end());
    places.resize(to.size(), 1);
    const Value table = b.broadcast(b.reshape(gather.operands[0], apart), whole);
    Value index = gather.operands[1];
    while (b.node(index).op == Opcode::reshape) index = b.node(index).operands[0];
    gather.type.shape = to;
    return in_kernel(b, gather, {table, b.reshape(index, places)});
  }

  const Graph& graph_;
  const Uses uses_;
};

}  // namespace

Graph gather_in_kernels(const Graph& graph) {
  const bool may_turn = std::any_of(
      graph.nodes().begin(), graph.nodes().end(),
      [](const Node& node) { return node.op == Opcode::matmul || node.op == Opcode::transpose; });
  return may_turn ? graph : remove_dead_nodes(Gathers(graph).run());
}

}  // namespace pto
