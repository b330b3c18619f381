// SPDX-License-Identifier: Apache-2.0
// ProductGroup: a product by a matrix, and the kernels behind it that can run on its tiles.
//
//     const ProductGroup group(graph, product);
//     if (group.pays()) group.members();   // kernels that compute part by part
//
// Kernels join one after another, until something else reads what the group makes: a loop over
// tiles stands in front of that.
//
// Thread safety: immutable.
#pragma once

#include <map>
#include <vector>

#include "pto/ir/graph.hpp"
#include "pto/ir/uses.hpp"

namespace pto {

constexpr int kCuts = 2;  // rows and columns of the product

class ProductGroup {
 public:
  // A kernel that runs on tiles: for each cut the axes of its body's nodes, -1: whole.
  struct Member {
    Value fused;
    std::vector<int> axes[kCuts];
  };
  // A value of the group: the axis of each cut.
  struct Tiled {
    int axes[kCuts];
  };

  ProductGroup(const Graph& graph, Value product);

  // Says whether the product need not exist as a whole, and is worth a loop.
  bool pays() const { return pays_; }
  bool cuts(int cut) const { return cuts_[cut]; }
  int axis(int cut) const { return axes_[cut]; }  // of the product; of rows the outermost one
  Value product() const { return product_; }
  const std::vector<Member>& members() const { return members_; }
  bool has(Value v) const { return tiled_.count(v) != 0 || is_member(v); }
  const Tiled& tiled(Value v) const { return tiled_.at(v); }
  // Says whether tiles read a packed copy of the right operand, and perhaps convert the left one.
  bool packs_right() const { return packs_right_; }
  // Returns the values of the group that the rest of the graph needs.
  std::vector<Value> leaving() const;

 private:
  bool is_member(Value v) const;
  bool reads(const Node& node) const;
  bool has_all_users(Value v) const;
  void gather();
  bool add_member(Value v);
  bool follow(const Node& node, int cut, Member& member) const;
  void add_result(Value v);

  const Graph& graph_;
  const Uses uses_;
  const Value product_;
  bool pays_ = false, packs_right_ = false;
  bool cuts_[kCuts] = {false, false};
  int axes_[kCuts] = {0, 1};
  std::vector<Member> members_;
  std::map<Value, Tiled> tiled_;
};

}  // namespace pto
