// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/fusion_plan.hpp"

#include <algorithm>

#include "pto/ir/infer.hpp"
#include "pto/ir/rebuild.hpp"

namespace pto {
namespace {

bool is_reduce(const Node& node) { return info(node.op).family == Family::Reduce; }

}  // namespace

FusionPlan::FusionPlan(const CutGraph& cut, bool is_body)
    : cut_(cut),
      graph_(cut.graph),
      steps_(graph_, is_body, cut.is_kept),
      nests_(graph_),
      ready_(graph_.nodes().size(), -1) {
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    if (graph_[v].op == Opcode::size) definition_[graph_[v].attributes.size.value()] = v;
  if (!steps_.any())
    for (Value output : graph_.outputs()) place_output(output);
  for (Value root : steps_.roots()) place_output(root);
  for (size_t i = 0; i < pending_.size(); ++i) place_reduction(pending_[i]);
}

std::string FusionPlan::region_key(const std::string& nest, int stage, int part) const {
  return nest + "@" + std::to_string(stage) + (part == 0 ? "" : "#" + std::to_string(part));
}

// The part whose kernel stores a value: of one that each reader computes, that of its source.
int FusionPlan::part_of(Value v) const {
  while (!is_leaf(v) && belongs_to_readers(graph_, graph_[v]) && !graph_[v].operands.empty())
    v = graph_[v].operands[0];
  return cut_.part[static_cast<size_t>(v)];
}

std::string FusionPlan::key_of(Value reduce) {
  return region_key(nest_of(reduce), stage_of(reduce), part_of(reduce));
}

// Says whether a region computes a reduction: a number of elements in each part and stage, since it
// is known in front of all.
bool FusionPlan::is_in(Value reduce, const std::string& key) {
  if (!is_count(graph_, graph_[reduce])) return key_of(reduce) == key;
  return nest_of(reduce) == key.substr(0, key.find('@'));
}

bool FusionPlan::is_outside(Value v, const std::string& key) {
  return is_leaf(v) || (reduces(v) && !is_in(v, key));
}

// Says whether a kernel reads the value, since it cannot compute it.
bool FusionPlan::is_leaf(Value v) const {
  return graph_[v].is_parameter() || (steps_.has(v) && graph_[v].op != Opcode::constant);
}
bool FusionPlan::reduces(Value v) const { return !is_leaf(v) && folds(graph_, graph_[v]); }

// The first stage in which all sizes are known that a node names.
int FusionPlan::ready_sizes(const Node& node) {
  int stage = 0;
  for (const int64_t symbol : symbols_of(node))
    if (const auto found = definition_.find(symbol); found != definition_.end())
      stage = std::max(stage, ready(found->second));
  return stage;
}

int FusionPlan::ready(Value v) {
  int& known = ready_[static_cast<size_t>(v)];
  if (known >= 0) return known;
  const Node& node = graph_[v];
  int stage = 0;
  if (node.op != Opcode::size) stage = ready_sizes(node);
  for (Value operand : is_extent(graph_, node) ? std::vector<Value>{} : node.operands)
    stage =
        std::max(stage, is_leaf(operand) || steps_.has(operand) ? ready(operand)
                                                                : placement_of(operand).stage + 1);
  return ready_[static_cast<size_t>(v)] = stage;
}

// The first stage in which all is there that a value is computed from, reductions apart.
int FusionPlan::leaves_ready(Value v, std::set<Value>* seen) {
  if (!steps_.any() || !seen->insert(v).second) return 0;
  int stage = ready_sizes(graph_[v]);
  if (is_leaf(v)) return std::max(stage, ready(v));
  if (reduces(v)) return stage;
  for (Value operand : graph_[v].operands) stage = std::max(stage, leaves_ready(operand, seen));
  return stage;
}
int FusionPlan::leaves_ready(Value v) {
  std::set<Value> seen;
  return leaves_ready(v, &seen);
}

// Finds the reductions that `v`, needed at `map`, reads without another reduction between.
void FusionPlan::uses(Value v, const AxisMap& map, std::set<std::pair<Value, AxisMap>>* seen,
                      std::vector<Use>* found) const {
  if (is_leaf(v) || !seen->insert({v, map}).second) return;
  const Node& node = graph_[v];
  if (reduces(v)) {
    found->push_back({v, map == reduction(graph_, node).result});
    return;
  }
  for (size_t i = 0; i < node.operands.size(); ++i)
    uses(node.operands[i], is_reduce(node) ? map : operand_map(graph_, node, i, map), seen, found);
}

std::vector<FusionPlan::Use> FusionPlan::uses_of(Value v) const {
  std::set<std::pair<Value, AxisMap>> seen;
  std::vector<Use> found;
  uses(v, own_map(graph_[v].type.shape), &seen, &found);
  return found;
}

// A reduction joins the loop nest of the reductions that it reads in place and with the same key;
// everything else that it reads must be finished a stage before.
int FusionPlan::stage_of(Value reduce) {
  auto known = stages_.find(reduce);
  if (known != stages_.end()) return known->second;
  int stage = leaves_ready(graph_[reduce].operands[0]);
  for (const Use& use : uses_of(graph_[reduce].operands[0]))
    stage =
        std::max(stage, stage_of(use.reduction) +
                            (use.in_place && nest_of(use.reduction) == nest_of(reduce) ? 0 : 1));
  return stages_[reduce] = stage;
}

void FusionPlan::place_reduction(Value v) {
  const std::string key = key_of(v);
  add_output(key, stage_of(v), v);
  for (const Use& use : uses_of(graph_[v].operands[0])) need(use, key);
}

// Makes a value that is read from outside of the region an output of its own region; a value
// inside may itself read from outside.
void FusionPlan::need(const Use& use, const std::string& key) {
  if (!needed_.insert({use.reduction, key}).second) return;
  if (!use.in_place || !is_in(use.reduction, key)) {
    pending_.push_back(use.reduction);
    return;
  }
  for (const Use& next : uses_of(graph_[use.reduction].operands[0])) need(next, key);
}

// The region that stores a value.
FusionPlan::Placement FusionPlan::placement_of(Value v) {
  if (reduces(v)) return {key_of(v), stage_of(v)};
  const int part = part_of(v);
  const std::vector<Use> used = uses_of(v);
  int stage = -1;
  for (const Use& use : used) stage = std::max(stage, stage_of(use.reduction));
  const std::string space = nests_.of_space(iteration_space(graph_[v].type.shape));
  std::string key;
  const int from_steps = leaves_ready(v);
  if (from_steps > stage) return {region_key(space, from_steps, part), from_steps};
  for (const Use& use : used) {
    const bool last = stage_of(use.reduction) == stage;
    const bool joins = last && use.in_place &&
                       nests_.of_space(reduction(graph_, graph_[use.reduction]).space) == space;
    const std::string candidate = region_key(nest_of(use.reduction), stage, part);
    if (last && (!joins || (!key.empty() && key != candidate)))
      return {region_key(space, stage + 1, part), stage + 1};
    if (last) key = candidate;
  }
  return {key, stage};
}

void FusionPlan::place_output(Value output) {
  if (reduces(output)) return place_reduction(output);
  const Placement placement = placement_of(output);
  add_output(placement.key, placement.stage, output);
  for (const Use& use : uses_of(output)) need(use, placement.key);
}

void FusionPlan::add_output(const std::string& key, int stage, Value v) {
  Region& region = regions_[key];
  region.stage = stage;
  if (std::find(region.outputs.begin(), region.outputs.end(), v) == region.outputs.end())
    region.outputs.push_back(v);
}

}  // namespace pto
