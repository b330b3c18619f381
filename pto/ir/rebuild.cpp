// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/rebuild.hpp"

#include <algorithm>

namespace pto {
namespace {

// Notes a symbol of its own for each that a node of the graph or its bodies defines.
void note_defined(const Graph& graph, std::vector<Dim>* symbols, int* free_symbol) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Opcode::size) {
      const int64_t symbol = node.attributes.size.value();
      for (auto s = static_cast<int64_t>(symbols->size()); s <= symbol; ++s)
        symbols->push_back(Dim::symbol(static_cast<int>(s)));
      (*symbols)[static_cast<size_t>(symbol)] = Dim::symbol((*free_symbol)++);
    }
    for (const auto& body : node.attributes.bodies) note_defined(*body, symbols, free_symbol);
  }
}

std::vector<Value> copy_renamed(GraphBuilder& b, const Graph& graph, std::vector<Value> inputs,
                                const std::vector<Dim>& symbols);

Graph renamed(const Graph& graph, const std::vector<Dim>& symbols) {
  GraphBuilder b(graph.name());
  for (const Value v : copy_renamed(b, graph, {}, symbols)) b.output(v);
  return b.build();
}

// Without `inputs` the graph's own are recorded, too.
std::vector<Value> copy_renamed(GraphBuilder& b, const Graph& graph, std::vector<Value> inputs,
                                const std::vector<Dim>& symbols) {
  const bool has_own = inputs.empty();
  std::vector<Value> place;
  for (const Node& old : graph.nodes()) {
    if (old.is_parameter() && !has_own) {
      const auto& all = graph.inputs();
      const auto at = std::find(all.begin(), all.end(), static_cast<Value>(place.size()));
      place.push_back(inputs[static_cast<size_t>(at - all.begin())]);
      continue;
    }
    Node node = with_bodies(old, [&](const Graph& body) { return renamed(body, symbols); });
    for (Dim& size : node.type.shape) size = substitute(size, symbols);
    node.attributes.size = substitute(node.attributes.size, symbols);
    for (Value& v : node.operands) v = place[static_cast<size_t>(v)];
    if (!node.locations.empty()) b.set_location(node.locations[0]);
    place.push_back(b.copy(node, node.operands));
  }
  for (Guard guard : graph.guards()) {
    guard.a = substitute(guard.a, symbols);
    guard.b = substitute(guard.b, symbols);
    b.copy_guard(guard);
  }
  std::vector<Value> outputs;
  for (const Value v : graph.outputs()) outputs.push_back(place[static_cast<size_t>(v)]);
  return outputs;
}

}  // namespace

std::vector<Value> inline_graph(GraphBuilder& b, const Graph& graph, std::vector<Value> inputs,
                                int* free_symbol) {
  std::vector<Dim> symbols;
  note_defined(graph, &symbols, free_symbol);
  return copy_renamed(b, graph, std::move(inputs), symbols);
}

Graph rebuild(const Graph& graph, const std::vector<Value>& outputs, const MakeNode& make,
              const std::function<bool(const Guard&)>& keep) {
  GraphBuilder b(graph.name());
  std::vector<Value> place;
  for (Value old = 0; static_cast<size_t>(old) < graph.nodes().size(); ++old) {
    Node node = graph[old];
    for (Value& v : node.operands) v = place[static_cast<size_t>(v)];
    b.clear_location();
    if (!node.locations.empty()) b.set_location(node.locations[0]);
    b.set_hints(node.hints);
    const std::optional<Value> v = make(b, node, old);
    PTO_ASSERT(!v || b.type(*v) == node.type);
    if (v) b.add_locations(*v, node.locations);
    place.push_back(v.value_or(-1));
  }
  for (const Guard& guard : graph.guards()) {
    if (keep && !keep(guard)) continue;
    b.copy_guard(guard);
  }
  b.clear_location();
  b.set_hints({});
  for (const Value v : outputs) b.output(place[static_cast<size_t>(v)]);
  return b.build();
}

std::set<int64_t> symbols_of(const Node& node) {
  std::set<int64_t> symbols;
  const auto note = [&](const Dim& dim) {
    each_symbol(dim, [&](int64_t s) { symbols.insert(s); });
  };
  for (const Dim& dim : node.type.shape) note(dim);
  note(node.attributes.size);
  for (const auto& body : node.attributes.bodies)
    for (const Node& inner : body->nodes()) symbols.merge(symbols_of(inner));
  return symbols;
}

std::string unused_name(const Graph& graph, std::string name) {
  const auto is_used = [&](Value v) { return graph[v].attributes.name == name; };
  while (std::any_of(graph.inputs().begin(), graph.inputs().end(), is_used)) name += "_";
  return name;
}

int free_symbol_of(const Graph& graph) {
  int64_t last = -1;
  for (const Node& node : graph.nodes())
    for (const int64_t symbol : symbols_of(node)) last = std::max(last, symbol);
  return static_cast<int>(last + 1);
}

bool has_checks(const Graph& graph) {
  for (const Guard& guard : graph.guards())
    if (guard.kind == GuardKind::Holds) return true;
  for (const Node& node : graph.nodes())
    for (const auto& body : node.attributes.bodies)
      if (has_checks(*body)) return true;
  return false;
}

std::vector<bool> needed_nodes(const Graph& graph, const std::vector<Value>& roots) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Value v : roots) needed[static_cast<size_t>(v)] = true;
  std::set<int64_t> symbols;  // of the sizes of needed nodes, their bodies and all guards
  for (const Guard& guard : graph.guards())
    for (const Dim* dim : {&guard.a, &guard.b})
      each_symbol(*dim, [&](int64_t s) { symbols.insert(s); });
  for (size_t i = needed.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (node.op == Opcode::size && symbols.count(node.attributes.size.value()) != 0)
      needed[i] = true;
    for (const auto& body : node.attributes.bodies)
      if (has_checks(*body)) needed[i] = true;
    if (!needed[i]) continue;
    symbols.merge(symbols_of(node));
    for (const Value v : node.operands) needed[static_cast<size_t>(v)] = true;
  }
  return needed;
}

Node with_bodies(Node node, const std::function<Graph(const Graph&)>& change) {
  for (auto& body : node.attributes.bodies) body = std::make_shared<const Graph>(change(*body));
  return node;
}

Graph with_hints(const Graph& graph, const std::vector<Hint>& hints) {
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value) {
    Node node = with_bodies(old, [&](const Graph& body) { return with_hints(body, hints); });
    if (!node.is_parameter()) {
      std::vector<Hint> all = node.hints ? *node.hints : std::vector<Hint>{};
      std::string added;
      for (const Hint& hint : hints) {
        if (find_hint(node, hint.name) != nullptr) continue;
        all.push_back(hint);
        added += (added.empty() ? "" : " ") + hint.name;
      }
      if (!added.empty()) all.push_back({"tuned", {}, added});
      node.hints = std::make_shared<const std::vector<Hint>>(std::move(all));
    }
    return b.copy(node, node.operands);
  });
}

}  // namespace pto
