// SPDX-License-Identifier: Apache-2.0
// FusionPlan: says which values of a graph each kernel computes, and when kernels and steps run.
//
//     const CutGraph cut = cut_points(graph, false, 256);
//     FusionPlan plan(cut, false);
//     for (const auto& [key, region] : plan.regions()) region.outputs;   // values that it stores
//
// Steps of stage n stand in front of the kernels of stage n, whose values go to steps and kernels
// of later stages.
//
// Invariant: what a region reads and does not compute is there in an earlier stage, or a step of
// its own makes it.
// Thread safety: none; one pass plans.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pto/ir/axis_map.hpp"
#include "pto/passes/cut_points.hpp"
#include "pto/passes/nest_keys.hpp"
#include "pto/passes/steps.hpp"

namespace pto {

// A region before it is built. Its key names its loop nest and part: space, reduced axes, stage.
struct Region {
  int stage = 0;
  std::vector<Value> outputs;  // of the whole graph, without repetition
};

class FusionPlan {
 public:
  // `is_body`: see StepNodes. `cut` outlives the plan.
  FusionPlan(const CutGraph& cut, bool is_body);

  const StepNodes& steps() const { return steps_; }
  const std::map<std::string, Region>& regions() const { return regions_; }
  // The stage of a step; of a parameter or constant the first.
  int ready(Value v);
  // Says whether the region of this key reads a value from outside.
  bool is_outside(Value v, const std::string& key);

 private:
  struct Use {
    Value reduction;
    bool in_place;  // needed at the map that the reduction's own loop nest gives
  };
  struct Placement {
    std::string key;
    int stage;
  };

  std::string nest_of(Value reduce) const { return nests_.of(graph_[reduce]); }
  std::string region_key(const std::string& nest, int stage, int part) const;
  int part_of(Value v) const;
  std::string key_of(Value reduce);
  bool is_in(Value reduce, const std::string& key);
  bool is_leaf(Value v) const;
  bool reduces(Value v) const;
  int ready_sizes(const Node& node);
  int leaves_ready(Value v, std::set<Value>* seen);
  int leaves_ready(Value v);
  void uses(Value v, const AxisMap& map, std::set<std::pair<Value, AxisMap>>* seen,
            std::vector<Use>* found) const;
  std::vector<Use> uses_of(Value v) const;
  int stage_of(Value reduce);
  Placement placement_of(Value v);
  void place_reduction(Value v);
  void need(const Use& use, const std::string& key);
  void place_output(Value output);
  void add_output(const std::string& key, int stage, Value v);

  const CutGraph& cut_;
  const Graph& graph_;
  const StepNodes steps_;
  const NestKeys nests_;
  std::vector<int> ready_;               // of steps; -1: not yet known
  std::map<int64_t, Value> definition_;  // of sizes from data
  std::map<Value, int> stages_;
  std::map<std::string, Region> regions_;
  std::set<std::pair<Value, std::string>> needed_;
  std::vector<Value> pending_;
};

}  // namespace pto
