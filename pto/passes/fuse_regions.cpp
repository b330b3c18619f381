// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/fuse_regions.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/verify.hpp"

namespace pto {
namespace {

bool is_reduce(const Node& node) { return info(node.op).family == Family::Reduce; }

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

// A region before it is built. The key names its loop nest: space, reduced axes, stage.
struct Region {
  int stage = 0;
  std::vector<Value> outputs;  // of the whole graph, without repetition
};

struct Use {
  Value reduction;
  bool in_place;  // needed at the map that the reduction's own loop nest gives
};

class Fusion {
 public:
  explicit Fusion(const Graph& graph) : graph_(graph), equal_(symbol_guards(graph)) {}

  Graph run() {
    for (Value output : graph_.outputs()) place_output(output);
    for (size_t i = 0; i < pending_.size(); ++i) place_reduction(pending_[i]);
    return build();
  }

 private:
  bool reduces(Value v) const {
    return is_reduce(graph_[v]) && !reduction(graph_, graph_[v]).axes.empty();
  }

  // Returns a text that is equal for equal sizes.
  std::string space_key(const Dims& space) const {
    Dims same;
    for (const Dim& dim : space) same.push_back(with_representatives(equal_, dim));
    return text(same);
  }

  std::string nest_key(Value reduce) const {
    const Reduction r = reduction(graph_, graph_[reduce]);
    std::string key = space_key(r.space);
    for (int axis : r.axes) key += "/" + std::to_string(axis);
    return key;
  }

  // Finds the reductions that `v`, needed at `map`, reads without another reduction between.
  void uses(Value v, const AxisMap& map, std::set<std::pair<Value, AxisMap>>* seen,
            std::vector<Use>* found) const {
    if (!seen->insert({v, map}).second) return;
    const Node& node = graph_[v];
    if (reduces(v)) {
      found->push_back({v, map == reduction(graph_, node).result});
      return;
    }
    for (size_t i = 0; i < node.operands.size(); ++i)
      uses(node.operands[i], is_reduce(node) ? map : operand_map(graph_, node, i, map), seen,
           found);
  }

  std::vector<Use> uses_of(Value v) const {
    std::set<std::pair<Value, AxisMap>> seen;
    std::vector<Use> found;
    uses(v, own_map(graph_[v].type.shape), &seen, &found);
    return found;
  }

  // A reduction joins the loop nest of the reductions that it reads in place and with the same key;
  // everything else that it reads must be finished a stage before.
  int stage_of(Value reduce) {
    auto known = stages_.find(reduce);
    if (known != stages_.end()) return known->second;
    int stage = 0;
    for (const Use& use : uses_of(graph_[reduce].operands[0]))
      stage = std::max(stage,
                       stage_of(use.reduction) +
                           (use.in_place && nest_key(use.reduction) == nest_key(reduce) ? 0 : 1));
    return stages_[reduce] = stage;
  }

  void place_reduction(Value v) {
    const std::string key = region_key(nest_key(v), stage_of(v));
    add_output(key, stage_of(v), v);
    for (const Use& use : uses_of(graph_[v].operands[0])) need(use, key);
  }

  // Makes a value that is read from outside of the region an output of its own region; a value
  // inside may itself read from outside.
  void need(const Use& use, const std::string& key) {
    if (!needed_.insert({use.reduction, key}).second) return;
    const bool inside =
        use.in_place && region_key(nest_key(use.reduction), stage_of(use.reduction)) == key;
    if (!inside) {
      pending_.push_back(use.reduction);
      return;
    }
    for (const Use& next : uses_of(graph_[use.reduction].operands[0])) need(next, key);
  }

  void place_output(Value output) {
    if (reduces(output)) return place_reduction(output);
    const std::vector<Use> used = uses_of(output);
    int stage = -1;
    for (const Use& use : used) stage = std::max(stage, stage_of(use.reduction));
    const std::string space = space_key(iteration_space(graph_[output].type.shape));
    std::string key;
    for (const Use& use : used) {
      const bool last = stage_of(use.reduction) == stage;
      const bool joins = last && use.in_place &&
                         space_key(reduction(graph_, graph_[use.reduction]).space) == space;
      const std::string candidate = region_key(nest_key(use.reduction), stage);
      if (last && (!joins || (!key.empty() && key != candidate))) {
        key.clear();
        stage += 1;
        break;
      }
      if (last) key = candidate;
    }
    if (key.empty()) {
      stage = std::max(stage, 0);
      key = region_key(space, stage);
    }
    add_output(key, stage, output);
    for (const Use& use : used) need(use, key);
  }

  static std::string region_key(const std::string& nest, int stage) {
    return nest + "@" + std::to_string(stage);
  }

  void add_output(const std::string& key, int stage, Value v) {
    Region& region = regions_[key];
    region.stage = stage;
    if (std::find(region.outputs.begin(), region.outputs.end(), v) == region.outputs.end())
      region.outputs.push_back(v);
  }

  Graph build();
  Graph build_body(const std::string& key, const Region& region, std::vector<Value>* operands);

  const Graph& graph_;
  const EqualSizes equal_;
  std::map<Value, int> stages_;
  std::map<std::string, Region> regions_;
  std::set<std::pair<Value, std::string>> needed_;
  std::vector<Value> pending_;
};

// Copies the region's part of the graph; values from outside become inputs.
Graph Fusion::build_body(const std::string& key, const Region& region,
                         std::vector<Value>* operands) {
  GraphBuilder body(graph_.name());
  std::map<Value, Value> copied;
  const auto outside = [&](Value v) {
    return reduces(v) && region_key(nest_key(v), stage_of(v)) != key;
  };
  const std::function<Value(Value)> copy = [&](Value v) -> Value {
    auto known = copied.find(v);
    if (known != copied.end()) return known->second;
    const Node& node = graph_[v];
    if (node.op == Opcode::input || outside(v)) {
      operands->push_back(v);
      const std::string name =
          node.op == Opcode::input ? node.attributes.name : "t" + std::to_string(v);
      return copied[v] = body.input(name, node.type.dtype, node.type.shape);
    }
    if (node.op == Opcode::scalar) {
      operands->push_back(v);
      return copied[v] = body.scalar(node.attributes.name, node.type.dtype);
    }
    std::vector<Value> inner;
    for (Value operand : node.operands) inner.push_back(copy(operand));
    const Value made = body.copy(node, inner);
    body.add_locations(made, node.locations);
    return copied[v] = made;
  };
  for (Value output : region.outputs) body.output(copy(output));
  return body.build();
}

Graph Fusion::build() {
  std::vector<std::pair<std::string, Region>> order(regions_.begin(), regions_.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.stage < b.second.stage; });
  GraphBuilder builder(graph_.name());
  std::map<Value, Value> made;
  for (Value v : graph_.inputs()) {
    const Node& node = graph_[v];
    made[v] = node.op == Opcode::input
                  ? builder.input(node.attributes.name, node.type.dtype, node.type.shape)
                  : builder.scalar(node.attributes.name, node.type.dtype);
    builder.add_locations(made[v], node.locations);
  }
  std::map<Value, Value> results;
  for (const auto& [key, region] : order) {
    std::vector<Value> operands, mapped;
    Graph body = build_body(key, region, &operands);
    for (Value v : operands) mapped.push_back(made.count(v) ? made.at(v) : results.at(v));
    const Value fused = builder.fused(mapped, std::move(body));
    for (size_t i = 0; i < region.outputs.size(); ++i)
      results[region.outputs[i]] = builder.result(fused, static_cast<int64_t>(i));
  }
  for (const Guard& guard : graph_.guards()) {
    builder.set_location(guard.location);
    builder.guard_equal(guard.a, guard.b, guard.because, guard.kind);
  }
  for (Value output : graph_.outputs()) builder.output(results.at(output));
  return builder.build();
}

}  // namespace

Graph fuse_regions(const Graph& graph) { return Fusion(graph).run(); }

}  // namespace pto
