// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/verify.hpp"

#include <algorithm>
#include <set>

#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"

namespace pto {
namespace {

// Checks one graph; the guards of the graphs around it hold inside.
class Verifier {
 public:
  Verifier(const Graph& graph, const std::vector<Guard>& outer)
      : graph_(graph), guards_(with(outer, graph.guards())), equal_(guards_) {}

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
    if (node.attributes.body != nullptr) Verifier(*node.attributes.body, guards_).check();
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

  // The shapes, aligned at the last axis, must be equal, or the source stretches.
  void require_fits(Value v, const Dims& from, const Dims& to) const {
    for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
      const Dim &x = from[from.size() - 1 - i], &y = to[to.size() - 1 - i];
      require(x == Dim(1) || equal_(x, y), v,
              "sizes " + text(x) + " and " + text(y) + " are equal or have a guard");
    }
  }

  void check_sizes(Value v, const std::vector<const Node*>& operands) const {
    const Node& node = graph_[v];
    if (node.op == Opcode::broadcast) require_fits(v, operands[0]->type.shape, node.type.shape);
    if (node.op == Opcode::reshape)
      require(equal_(product(operands[0]->type.shape), product(node.type.shape)), v,
              "a reshape keeps the number of elements, provably or by a guard");
    if (node.op == Opcode::matmul) {
      const Dims &a = operands[0]->type.shape, &b = operands[1]->type.shape;
      require(equal_(a[a.size() - 1], b[b.size() - 2]), v,
              "the contraction sizes are equal or have a guard");
      require_fits(v, {a.begin(), a.end() - 1},
                   {node.type.shape.begin(), node.type.shape.end() - 1});
    }
    if (node.attributes.body == nullptr) return;
    const Graph& body = *node.attributes.body;
    const size_t skipped = node.op == Opcode::loop ? 2 : 0;
    for (size_t i = skipped; i < operands.size(); ++i) {
      const Node& parameter = body[body.inputs()[i - skipped]];
      const Dims& shape = parameter.type.shape;
      require(parameter.op != Opcode::scalar || operands[i]->op == Opcode::scalar, v,
              "a scalar input of a body takes a scalar of the graph");
      for (size_t axis = 0; axis < shape.size(); ++axis)
        require(equal_(shape[axis], operands[i]->type.shape[axis]), v,
                "an operand has the shape of the body's input");
    }
    if (node.op == Opcode::loop) check_carried(v, body);
  }

  // An iteration must produce the types that the next one takes.
  void check_carried(Value v, const Graph& body) const {
    const EqualSizes equal(with(guards_, body.guards()));
    for (size_t i = 0; i < body.outputs().size(); ++i) {
      const Dims& from = body[body.outputs()[i]].type.shape;
      const Dims& to = body[body.inputs()[i + 1]].type.shape;
      for (size_t axis = 0; axis < from.size(); ++axis)
        require(equal(from[axis], to[axis]), v, "a loop carries values of the same shape");
    }
  }

  const Graph& graph_;
  std::vector<Guard> guards_;
  EqualSizes equal_;
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

void verify(const Graph& graph) { Verifier(graph, {}).check(); }

}  // namespace pto
