// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/choose_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "pto/ir/infer.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/passes/remove_dead_nodes.hpp"
#include "pto/passes/turned_axes.hpp"

namespace pto {
namespace {

Axes unturned_axes(size_t rank) {
  Axes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Axes inverse(const Axes& axes) { return unturned(unturned_axes(axes.size()), axes); }

Axes axes_of(const Node& node) {
  return node.op == Opcode::transpose ? node.attributes.axes
                                      : unturned_axes(node.type.shape.size());
}

bool is_in_trees(const Node& node) { return is_elementwise(node.op) && node.type.shape.size() > 1; }

// The trees of a graph, and the order of axes in which each is computed.
class Trees {
 public:
  explicit Trees(const Graph& graph);

  // A value of the tree is the transpose, by these axes, of what is computed; none: of itself.
  Axes layout(Value v) const {
    const auto found = layouts_.find(root(v));
    return found == layouts_.end() ? Axes() : found->second;
  }
  Value root(Value v) const {
    while (up_[static_cast<size_t>(v)] != v) v = up_[static_cast<size_t>(v)];
    return v;
  }
  bool any() const { return !layouts_.empty(); }

 private:
  // A tensor that a tree reads, or one that is read of it: as the tree has it, it is the transpose
  // by `axes` of memory, or memory is the inverse transpose of it.
  struct Edge {
    Axes axes;
    int bytes;  // of an element
  };
  void add_edges(Value v);
  void choose(Value root);
  int64_t copied(Value root, const Axes& layout) const;

  const Graph& graph_;
  std::vector<Value> up_;
  std::map<Value, std::map<Value, Edge>> reads_;  // by the tree, then the operand
  std::map<Value, std::map<Value, Edge>> read_;   // by the tree, then the reader
  std::map<Value, Axes> layouts_;
};

Trees::Trees(const Graph& graph) : graph_(graph), up_(graph.nodes().size()) {
  std::iota(up_.begin(), up_.end(), 0);
  const auto count = static_cast<Value>(graph.nodes().size());
  for (Value v = 0; v < count; ++v)
    for (const Value operand : graph[v].operands)
      if (is_in_trees(graph[v]) && is_in_trees(graph[operand]))
        up_[static_cast<size_t>(root(operand))] = root(v);
  for (Value v = 0; v < count; ++v) add_edges(v);
  for (const Value v : graph.outputs())
    if (is_in_trees(graph[v]))
      read_[root(v)][v] = {unturned_axes(graph[v].type.shape.size()), bytes(graph[v].type.dtype)};
  for (const auto& [root, edges] : reads_) choose(root);
}

void Trees::add_edges(Value v) {
  const Node& node = graph_[v];
  for (const Value operand : node.operands) {
    const Node& read = graph_[operand];
    if (is_in_trees(node) && !is_in_trees(read) && read.op != Opcode::broadcast)
      reads_[root(v)][operand] = {axes_of(read), bytes(read.type.dtype)};
    if (is_in_trees(read) && !is_in_trees(node))
      read_[root(operand)][v] = {node.op == Opcode::transpose
                                     ? inverse(node.attributes.axes)
                                     : unturned_axes(read.type.shape.size()),
                                 bytes(read.type.dtype)};
  }
}

// Counts the bytes that are copied in a layout, for one element of each tensor.
int64_t Trees::copied(Value root, const Axes& layout) const {
  const auto turns = [&](const Axes& axes) {
    const Dims shape = unturned(graph_[root].type.shape, layout);
    const Axes all = composed(axes, inverse(layout));
    return all.back() != int64_t(all.size()) - 1 && !keeps_order(shape, all);
  };
  int64_t sum = 0;
  for (const auto* edges : {&reads_, &read_}) {
    const auto found = edges->find(root);
    if (found == edges->end()) continue;
    for (const auto& [other, edge] : found->second) sum += turns(edge.axes) ? edge.bytes : 0;
  }
  return sum;
}

void Trees::choose(Value root) {
  int64_t least = copied(root, unturned_axes(graph_[root].type.shape.size()));
  for (const auto* edges : {&reads_, &read_}) {
    const auto found = edges->find(root);
    if (found == edges->end()) continue;
    for (const auto& [other, edge] : found->second) {
      const int64_t bytes = copied(root, edge.axes);
      if (bytes >= least) continue;
      least = bytes;
      layouts_[root] = edge.axes;
    }
  }
}

// Makes the nodes of turned trees.
class Turning {
 public:
  explicit Turning(const Trees& trees) : trees_(trees) {}

  Value node(GraphBuilder& b, const Graph& graph, const Node& node, Value v) {
    const Axes layout = is_in_trees(node) ? trees_.layout(v) : Axes();
    if (layout.empty()) return other(b, graph, node, v);
    std::vector<Value> operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Value old = graph[v].operands[i];
      const auto made = made_.find(old);
      operands.push_back(made != made_.end() ? made->second
                                             : as_computed(b, node.operands[i], layout));
    }
    made_[v] = b.copy(node, std::move(operands));
    return b.transpose(made_[v], layout);
  }

 private:
  // A transpose of what was computed in another order is one transpose, or none.
  Value other(GraphBuilder& b, const Graph& graph, const Node& node, Value v) {
    if (node.op == Opcode::transpose)
      if (const auto made = made_.find(graph[v].operands[0]); made != made_.end())
        return turned(b, made->second,
                      composed(trees_.layout(graph[v].operands[0]), node.attributes.axes));
    return b.copy(node, node.operands);
  }
  // Returns what a broadcast repeats, with all axes, in the order of a tree.
  static Value spread(GraphBuilder& b, Value source, const Axes& layout) {
    Dims whole = b.type(source).shape;
    whole.insert(whole.begin(), layout.size() - whole.size(), Dim(1));
    const Dims shape = unturned(whole, layout);
    const Axes back = inverse(layout);
    if (keeps_order(shape, back)) return b.reshape(source, shape);
    return turned(b, whole == b.type(source).shape ? source : b.reshape(source, whole), back);
  }
  // Returns what a tree reads in its order; each of its nodes the same value.
  Value as_computed(GraphBuilder& b, Value v, const Axes& layout) {
    const auto known = read_.find({v, layout});
    if (known != read_.end()) return known->second;
    const Node node = b.node(v);
    const Axes back = inverse(layout);
    Value found;
    if (node.op == Opcode::broadcast) {
      found = b.broadcast(spread(b, node.operands[0], layout), unturned(node.type.shape, layout));
    } else if (node.op == Opcode::transpose) {
      found = turned(b, node.operands[0], composed(node.attributes.axes, back));
    } else {
      found = turned(b, v, back);
    }
    return read_[{v, layout}] = found;
  }

  const Trees& trees_;
  std::map<Value, Value> made_;                   // of values of turned trees, what is computed
  std::map<std::pair<Value, Axes>, Value> read_;  // of values of the new graph
};

}  // namespace

Graph choose_layout(const Graph& graph) {
  const Trees trees(graph);
  Turning turning(trees);
  const Graph found =
      rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
        return turning.node(b, graph, with_bodies(old, choose_layout), v);
      });
  return trees.any() ? remove_dead_nodes(found) : found;
}

}  // namespace pto
