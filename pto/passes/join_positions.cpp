// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/join_positions.hpp"

#include <algorithm>
#include <numeric>

#include "pto/ir/rebuild.hpp"
#include "pto/ir/uses.hpp"
#include "pto/passes/remove_dead_nodes.hpp"

namespace pto {
namespace {

// Returns how many axes in front of `whole` are the first one of `joined`; 0: it is another shape.
size_t joined_in_front(const Dims& whole, const Dims& joined) {
  if (joined.empty() || whole.size() <= joined.size()) return 0;
  const size_t count = whole.size() - joined.size() + 1;
  const auto behind = whole.begin() + static_cast<std::ptrdiff_t>(count);
  return std::equal(joined.begin() + 1, joined.end(), behind, whole.end()) ? count : 0;
}

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : graph_(graph), uses_(graph) {}

  Graph run() {
    return rebuild(graph_, graph_.outputs(), [&](GraphBuilder& b, const Node& node, Value v) {
      if (node.op == Opcode::gather)
        if (const size_t count = joined_axes(graph_[v])) return joined(b, node, count, node.type);
      if (node.op == Opcode::reshape) {
        const Value flat = graph_[v].operands[0];
        const size_t count = scattered_axes(flat, node.type);
        if (count > 0) return joined(b, b.node(node.operands[0]), count, node.type);
      }
      return b.copy(with_bodies(node, join_positions), node.operands);
    });
  }

 private:
  // Returns how many axes the reshape joins to which the positions of `node` refer; 0: none.
  size_t joined_axes(const Node& node) const {
    const Node& of = graph_[node.operands[0]];
    if (of.op != Opcode::reshape || node.attributes.axes != std::vector<int64_t>{0}) return 0;
    return joined_in_front(graph_[of.operands[0]].type.shape, of.type.shape);
  }

  // The same for a scatter that only a reshape to `whole` reads, the type of what was joined.
  size_t scattered_axes(Value flat, const Type& whole) const {
    const Node& scatter = graph_[flat];
    if (scatter.op != Opcode::scatter || !uses_.is_read_once(flat)) return 0;
    const size_t count = joined_axes(scatter);
    const auto unjoined = [&] { return graph_[graph_[scatter.operands[0]].operands[0]].type; };
    return count > 0 && unjoined() == whole ? count : 0;
  }

  // `node` has operands of the new graph.
  static Value joined(GraphBuilder& b, Node node, size_t count, const Type& type) {
    node.type = type;
    node.attributes.axes.resize(count);
    std::iota(node.attributes.axes.begin(), node.attributes.axes.end(), 0);
    std::vector<Value> operands = node.operands;
    operands[0] = b.node(operands[0]).operands[0];
    return b.copy(node, std::move(operands));
  }

  const Graph& graph_;
  const Uses uses_;
};

}  // namespace

Graph join_positions(const Graph& graph) { return remove_dead_nodes(Joiner(graph).run()); }

}  // namespace pto
