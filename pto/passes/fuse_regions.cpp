// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/fuse_regions.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "pto/ir/infer.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/passes/fusion_plan.hpp"

namespace pto {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, bool is_body) : graph_(graph), plan_(graph, is_body) {}
  Graph run();

 private:
  Graph build_body(const std::string& key, const Region& region, std::vector<Value>* operands);
  Value operand(Value v) const { return made_.count(v) ? made_.at(v) : stored_.at(v); }
  void build_step(GraphBuilder& builder, Value v);
  void build_region(GraphBuilder& builder, const std::string& key, const Region& region);

  const Graph& graph_;
  FusionPlan plan_;
  // Values of the new graph: of parameters and steps, and those that kernels store.
  std::map<Value, Value> made_, stored_;
};

// Copies the region's part of the graph; values from outside become inputs.
Graph Builder::build_body(const std::string& key, const Region& region,
                          std::vector<Value>* operands) {
  GraphBuilder body(graph_.name());
  std::map<Value, Value> copied;
  std::set<std::string> names;
  const auto new_name = [&](const Node& node, Value v) {
    std::string name = node.is_parameter() ? node.attributes.name : "t" + std::to_string(v);
    while (!names.insert(name).second) name += "_";
    return name;
  };
  const std::function<Value(Value)> copy = [&](Value v) -> Value {
    auto known = copied.find(v);
    if (known != copied.end()) return known->second;
    const Node& node = graph_[v];
    if (plan_.is_outside(v, key)) {
      operands->push_back(v);
      const std::string name = new_name(node, v);
      return copied[v] = node.op == Opcode::scalar
                             ? body.scalar(name, node.type.dtype)
                             : body.input(name, node.type.dtype, node.type.shape);
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

void Builder::build_step(GraphBuilder& builder, Value v) {
  Node node = graph_[v];
  node = with_bodies(std::move(node),
                     [](const Graph& body) { return Builder(body, /*is_body=*/true).run(); });
  if (is_extent(graph_, node)) {
    made_[v] = builder.extent(reduced_size(graph_, graph_[node.operands[0]]));
  } else {
    for (Value& v : node.operands) v = operand(v);
    made_[v] = builder.copy(node, node.operands);
  }
  builder.add_locations(made_[v], node.locations);
}

void Builder::build_region(GraphBuilder& builder, const std::string& key, const Region& region) {
  std::vector<Value> operands;
  Graph body = build_body(key, region, &operands);
  for (Value& v : operands) v = operand(v);
  const Value fused = builder.fused(operands, std::move(body));
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    const Value made = stored_[region.outputs[i]] = builder.result(fused, static_cast<int64_t>(i));
    builder.add_locations(made, graph_[region.outputs[i]].locations);
  }
}

Graph Builder::run() {
  GraphBuilder builder(graph_.name());
  for (Value v : graph_.inputs()) {
    made_[v] = builder.copy(graph_[v], {});
    builder.add_locations(made_[v], graph_[v].locations);
  }
  std::map<int, std::vector<Value>> steps;
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    if (plan_.steps().any() && plan_.steps().has(v)) steps[plan_.ready(v)].push_back(v);
  std::map<int, std::vector<std::string>> regions;
  for (const auto& [key, region] : plan_.regions()) regions[region.stage].push_back(key);
  const int last = std::max(steps.empty() ? -1 : steps.rbegin()->first,
                            regions.empty() ? -1 : regions.rbegin()->first);
  for (int stage = 0; stage <= last; ++stage) {
    for (const Value v : steps[stage]) build_step(builder, v);
    for (const std::string& key : regions[stage])
      build_region(builder, key, plan_.regions().at(key));
  }
  for (const Guard& guard : graph_.guards()) {
    builder.set_location(guard.location);
    builder.guard_equal(guard.a, guard.b, guard.because, guard.kind);
  }
  for (Value v : graph_.outputs()) builder.output(stored_.count(v) ? stored_.at(v) : made_.at(v));
  return builder.build();
}

}  // namespace

Graph fuse_regions(const Graph& graph) { return Builder(graph, /*is_body=*/false).run(); }

}  // namespace pto
