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
#include "pto/passes/order_steps.hpp"

namespace pto {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, bool is_body, int longest)
      : cut_(cut_points(graph, is_body, longest)),
        longest_(longest),
        graph_(cut_.graph),
        plan_(cut_, is_body) {}
  Graph run();

 private:
  Graph build_body(const std::string& key, const Region& region, std::vector<Value>* operands);
  struct Item {  // a step; or a region, with the last value that it stores
    Value step;
    const std::string* region;
  };
  std::vector<Item> items();
  std::vector<Item> in_asked_order(const std::vector<Item>& all);
  std::vector<Item> with_checks_first(const std::vector<Item>& all);
  std::vector<std::vector<size_t>> needs_of(const std::vector<Item>& all);
  Value operand(Value v) const { return made_.count(v) ? made_.at(v) : stored_.at(v); }
  void build_step(GraphBuilder& builder, Value v);
  void build_region(GraphBuilder& builder, const std::string& key, const Region& region);

  const CutGraph cut_;
  const int longest_;
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
  if (cut_.is_kept[static_cast<size_t>(v)]) {
    made_[v] = operand(graph_[v].operands[0]);
    return;
  }
  Node node = graph_[v];
  node = with_bodies(std::move(node),
                     [&](const Graph& body) { return Builder(body, true, longest_).run(); });
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

// Lists steps and kernels stage by stage, or in the order that hints ask for.
std::vector<Builder::Item> Builder::items() {
  std::map<int, std::vector<Item>> stages;
  for (Value v = 0; v < static_cast<Value>(graph_.nodes().size()); ++v)
    if (plan_.steps().any() && plan_.steps().has(v)) stages[plan_.ready(v)].push_back({v, nullptr});
  for (const auto& [key, region] : plan_.regions()) {
    const Value last = *std::max_element(region.outputs.begin(), region.outputs.end());
    stages[region.stage].push_back({last, &key});
  }
  std::vector<Item> all;
  for (const auto& [stage, some] : stages) all.insert(all.end(), some.begin(), some.end());
  return with_checks_first(in_asked_order(all));
}

std::vector<Builder::Item> Builder::in_asked_order(const std::vector<Item>& all) {
  const auto order = asked_order(graph_);
  if (!order) return all;
  std::vector<Value> places;
  for (const Item& item : all) places.push_back(item.step);
  std::vector<Item> ordered;
  for (const size_t i : in_order(needs_of(all), places, *order)) ordered.push_back(all[i]);
  return ordered;
}

// Puts the checks of a program, and what they need, in front of all that they may prevent.
std::vector<Builder::Item> Builder::with_checks_first(const std::vector<Item>& all) {
  std::set<int64_t> counts;
  for (const Guard& guard : graph_.guards())
    if (guard.kind == GuardKind::Holds) each_symbol(guard.a, [&](int64_t s) { counts.insert(s); });
  if (counts.empty()) return all;
  const std::vector<std::vector<size_t>> needs = needs_of(all);
  std::vector<bool> is_first(all.size());
  const std::function<void(size_t)> mark = [&](size_t i) {
    if (is_first[i]) return;
    is_first[i] = true;
    for (const size_t need : needs[i]) mark(need);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const Node& node = graph_[all[i].step];
    if (all[i].region == nullptr && node.op == Opcode::size &&
        counts.count(node.attributes.size.value()))
      mark(i);
  }
  std::vector<Item> ordered;
  for (const bool first : {true, false})
    for (size_t i = 0; i < all.size(); ++i)
      if (is_first[i] == first) ordered.push_back(all[i]);
  return ordered;
}

// Lists of each item those whose values, or sizes from data, it reads.
std::vector<std::vector<size_t>> Builder::needs_of(const std::vector<Item>& all) {
  std::map<Value, size_t> makers;
  std::map<int64_t, size_t> sizes;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].region != nullptr)
      for (const Value v : plan_.regions().at(*all[i].region).outputs) makers[v] = i;
    else
      makers[all[i].step] = i;
    const Node& node = graph_[all[i].step];
    if (all[i].region == nullptr && node.op == Opcode::size)
      sizes[node.attributes.size.value()] = i;
  }
  std::vector<std::vector<size_t>> needs(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    std::set<int64_t> symbols;
    std::vector<Value> operands;
    if (all[i].region == nullptr) {
      operands = graph_[all[i].step].operands;
      symbols = symbols_of(graph_[all[i].step]);
    } else {
      const Graph body = build_body(*all[i].region, plan_.regions().at(*all[i].region), &operands);
      for (const Node& node : body.nodes()) symbols.merge(symbols_of(node));
    }
    std::set<size_t> found;
    for (const Value v : operands)
      if (const auto maker = makers.find(v); maker != makers.end()) found.insert(maker->second);
    for (const int64_t symbol : symbols)
      if (const auto size = sizes.find(symbol); size != sizes.end()) found.insert(size->second);
    found.erase(i);
    needs[i].assign(found.begin(), found.end());
  }
  return needs;
}

Graph Builder::run() {
  GraphBuilder builder(graph_.name());
  for (Value v : graph_.inputs()) {
    made_[v] = builder.copy(graph_[v], {});
    builder.add_locations(made_[v], graph_[v].locations);
  }
  for (const Item& item : items()) {
    if (item.region == nullptr)
      build_step(builder, item.step);
    else
      build_region(builder, *item.region, plan_.regions().at(*item.region));
  }
  for (const Guard& guard : graph_.guards()) builder.copy_guard(guard);
  for (Value v : graph_.outputs()) builder.output(stored_.count(v) ? stored_.at(v) : made_.at(v));
  return builder.build();
}

}  // namespace

Graph fuse_regions(const Graph& graph, int longest) {
  return Builder(graph, /*is_body=*/false, longest).run();
}

}  // namespace pto
