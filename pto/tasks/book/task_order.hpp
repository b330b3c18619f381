// SPDX-License-Identifier: Apache-2.0
// TaskOrder: says which tasks come before which, by any path of edges.
//
//     const int a = order.add({}), b = order.add({a});
//     order.precedes(a, b);
//     order.without(a, b, required);    // what would still hold if b did not follow a
//
// Invariant: a node follows only earlier nodes. Memory is one bit for each pair of nodes.
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace pto {

class TaskOrder {
 public:
  static constexpr int kMost = 1 << 15;  // nodes: 128 MB

  int add(std::vector<int> follows) {
    const int node = size();
    nodes_.push_back({std::move(follows), {}});
    close(nodes_.back(), nodes_, node);
    return node;
  }
  int size() const { return int(nodes_.size()); }
  bool precedes(int a, int b) const { return has(nodes_[size_t(b)], a); }

  // How the order would change without the edge from a to b.
  struct Change {
    bool is_same;     // all given pairs stay ordered
    bool is_implied;  // a still precedes b
  };
  // `pairs` are (earlier, later); a pair that is not ordered now is ignored.
  Change without(int a, int b, const std::vector<std::pair<int, int>>& pairs) const {
    std::vector<Node> changed(nodes_.begin() + b, nodes_.end());
    std::erase(changed[0].follows, a);
    const auto at = [&](int node) -> const Node& {
      return node < b ? nodes_[size_t(node)] : changed[size_t(node - b)];
    };
    for (int node = b; node < size(); ++node) {
      Node& own = changed[size_t(node - b)];
      std::fill(own.before.begin(), own.before.end(), 0);
      for (int earlier : own.follows) enter(own, at(earlier), earlier);
    }
    bool is_same = true;
    for (const auto& [earlier, later] : pairs)
      is_same = is_same && (later < b || !precedes(earlier, later) || has(at(later), earlier));
    return {is_same, has(changed[0], a)};
  }
  // Returns the number of words that without() reads.
  int64_t work(int b) const { return int64_t(size() - b) * (size() / 64 + 1); }

 private:
  struct Node {
    std::vector<int> follows;
    std::vector<uint64_t> before;  // a bit for each node
  };
  static bool has(const Node& node, int earlier) {
    const auto word = size_t(earlier) / 64;
    return word < node.before.size() && (node.before[word] >> (earlier % 64) & 1) != 0;
  }
  static void enter(Node& node, const Node& earlier, int number) {
    for (size_t i = 0; i < earlier.before.size(); ++i) node.before[i] |= earlier.before[i];
    node.before[size_t(number) / 64] |= uint64_t{1} << (number % 64);
  }
  static void close(Node& node, const std::vector<Node>& all, int number) {
    node.before.assign(size_t(number) / 64 + 1, 0);
    for (int earlier : node.follows) enter(node, all[size_t(earlier)], earlier);
  }

  std::vector<Node> nodes_;
};

}  // namespace pto
