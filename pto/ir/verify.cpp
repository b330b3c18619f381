// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/verify.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

// Checks one graph; the guards of the graphs around it hold inside.
class Verifier {
 public:
  Verifier(const Graph& graph, const std::vector<Guard>& outer, std::set<int64_t>* defined,
           std::set<int64_t> hidden)
      : graph_(graph),
        guards_(with(outer, graph.guards())),
        equal_(guards_),
        defined_(defined),
        hidden_(std::move(hidden)) {
    for (const Node& node : graph.nodes())
      if (node.op == Opcode::size && node.attributes.size.is_symbol())
        hidden_.insert(node.attributes.size.value());
  }

  void check() {
    check_inputs();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) check_node(static_cast<Value>(i));
    for (const Value v : graph_.outputs())
      require(v >= 0 && v < size(), v, "an output is a node of the graph");
    require(!graph_.outputs().empty(), 0, "a graph has an output");
  }

 private:
  static std::vector<Guard> with(std::vector<Guard> all, const std::vector<Guard>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Value size() const { return static_cast<Value>(graph_.nodes().size()); }

  std::string label(Value v) const {
    if (v < 0 || v >= size()) return "node " + std::to_string(v);
    const Node& node = graph_[v];
    return "node " + std::to_string(v) + " (" + std::string(info(node.op).name) + " : " +
           text(node.type) + ")";
  }

  void require(bool holds, Value v, std::string_view rule) const {
    if (holds) return;
    fail({"graph " + in_quotes(graph_.name()) + ", " + label(v) + " breaks a rule",
          std::string(rule),
          "correct the graph if it was built by hand; else disable the last pass and report it"});
  }

  void check_inputs() const {
    std::set<std::string> names;
    const auto inputs = static_cast<Value>(graph_.inputs().size());
    for (Value v = 0; v < size(); ++v) {
      const Node& node = graph_[v];
      require(node.is_parameter() == (v < inputs), v, "the inputs are the first nodes");
      require(v >= inputs || graph_.inputs()[static_cast<size_t>(v)] == v, v,
              "the inputs are listed in order");
      require(v >= inputs || names.insert(node.attributes.name).second, v,
              "inputs have different names");
    }
  }

  void check_node(Value v) {
    const Node& node = graph_[v];
    std::vector<const Node*> operands;
    for (const Value operand : node.operands) {
      require(operand >= 0 && operand < v, v, "operands stand before their node");
      operands.push_back(&graph_[operand]);
    }
    Type type;
    try {
      type = infer(node, operands);
    } catch (const Error& error) {
      require(false, v, error.text().what + "; " + error.text().why);
    }
    require(type == node.type, v, "the type of a node follows from its operands: " + text(type));
    require(unique(v), v, "equal nodes are one node");
    check_sizes(v, operands);
    check_symbols(v);
    for (const auto& body : node.attributes.bodies) {
      const std::set<int64_t> before = *defined_;
      Verifier(*body, guards_, defined_, hidden_).check();
      std::set_difference(defined_->begin(), defined_->end(), before.begin(), before.end(),
                          std::inserter(hidden_, hidden_.end()));
    }
  }

  bool unique(Value v) {
    std::string key = std::string(info(graph_[v].op).name) + text(graph_[v].type);
    for (const Value operand : graph_[v].operands) key += " " + std::to_string(operand);
    std::vector<Value>& same = by_key_[key];
    const bool found = std::any_of(same.begin(), same.end(), [&](Value other) {
      return graph_[other].attributes == graph_[v].attributes;
    });
    same.push_back(v);
    return !found;
  }

  void check_sizes(Value v, const std::vector<const Node*>& operands) const {
    const auto sizes = operation(graph_[v].op).sizes;
    if (sizes == nullptr) return;
    for (const SizePair& pair : sizes(graph_[v], operands)) {
      if (pair.stretches && pair.from == Dim(1)) continue;
      const bool is_equal =
          pair.body == nullptr ? equal_(pair.from, pair.to)
                               : EqualSizes(with(guards_, pair.body->guards()))(pair.from, pair.to);
      const std::string sizes_of_pair = "sizes " + text(pair.from) + " and " + text(pair.to);
      require(is_equal, v,
              pair.rule != nullptr ? pair.rule : sizes_of_pair + " are equal or have a guard");
    }
  }

  // A size from data is defined once, in front of what has it, and serves its own graph and the
  // bodies in it.
  void check_symbols(Value v) {
    const Node& node = graph_[v];
    if (node.op == Opcode::size) {
      const int64_t symbol = node.attributes.size.value();
      require(defined_->insert(symbol).second, v, "a size is defined once");
      hidden_.erase(symbol);
    }
    const auto check = [&](const Dim& dim) {
      each_symbol(dim, [&](int64_t symbol) {
        require(hidden_.count(symbol) == 0, v,
                "a size stands before its uses, which are in its own graph or in bodies there");
      });
    };
    for (const Dim& dim : node.type.shape) check(dim);
    check(node.attributes.size);
  }

  const Graph& graph_;
  std::vector<Guard> guards_;
  EqualSizes equal_;
  std::set<int64_t>* defined_;  // by nodes of this graph, and of those around and in it
  std::set<int64_t> hidden_;    // by nodes that stand behind, or in a body that has ended
  std::unordered_map<std::string, std::vector<Value>> by_key_;
};

}  // namespace

EqualSizes::EqualSizes(const std::vector<Guard>& guards) {
  for (const Guard& guard : guards) join(guard.a, guard.b);
}

void EqualSizes::join(const Dim& a, const Dim& b) {
  const Dim x = representative(a), y = representative(b);
  if (x == y) return;
  const bool keep_x = x.is_constant() || (!y.is_constant() && text(x) <= text(y));
  const Dim &kept = keep_x ? x : y, &gone = keep_x ? y : x;
  for (auto& [dim, found] : known_)
    if (found == gone) found = kept;
  known_.emplace_back(gone, kept);
}

Dim EqualSizes::representative(const Dim& dim) const {
  for (const auto& [known, found] : known_)
    if (known == dim) return found;
  return dim;
}

void verify(const Graph& graph) {
  std::set<int64_t> defined;
  for (const Node& node : graph.nodes())
    for (const Dim& dim : node.is_parameter() ? node.type.shape : Dims())
      each_symbol(dim, [&](int64_t symbol) { defined.insert(symbol); });
  Verifier(graph, {}, &defined, {}).check();
}

}  // namespace pto
