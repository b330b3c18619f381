// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/interchange_loops.hpp"

#include <algorithm>
#include <map>

#include "pto/ir/made.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/passes/loop_level.hpp"

namespace pto {
namespace {

// Builds the loop over groups in the place of the outer loop.
class Groups {
 public:
  Groups(const LoopNest& nest, const Node& loop, int* free_symbol)
      : nest_(nest), body_(nest.body()), loop_(loop), free_symbol_(free_symbol) {}

  Value build(GraphBuilder& b) {
    std::vector<Value> operands = loop_.operands;
    const Value one = b.constant(int64_t{1}, DType::I64);
    operands[2] = b.binary(Opcode::maximum, operands[1], one);
    operands.push_back(operands[2]);
    Node made = loop_;
    made.operands = operands;
    made.attributes.bodies = {std::make_shared<const Graph>(group())};
    std::vector<Hint> hints = loop_.hints ? *loop_.hints : std::vector<Hint>{};
    hints.push_back({"any_step", {}, "loops changed places"});
    b.set_hints(std::make_shared<const std::vector<Hint>>(std::move(hints)));
    return b.copy(made, operands);
  }

 private:
  const Type& type_of(Value v) const { return body_[v].type; }
  const Node& inner() const { return nest_.inner_loop(); }
  Value state(size_t k) const { return inner().operands[first_carried(inner()) + k]; }
  Type with_axis(Type type) const {
    type.shape.insert(type.shape.begin(), iterations_);
    return type;
  }

  Graph group() {
    Level level(nest_, nullptr, body_.name(), loop_);
    const auto& inputs = body_.inputs();
    std::vector<Value> written;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node& node = body_[inputs[i]];
      const Value made = level.input(node.attributes.name, node.type);
      level.b.add_locations(made, node.locations);
      if (i == 0)
        level.set_first(made);
      else if (i <= body_.outputs().size())
        written.push_back(made);
      else
        level.set(inputs[i], made);
      if (i == 0) first_ = made;
    }
    define_iterations(level, level.input("width", {DType::I64, {}}));
    level.keep_guards(body_);
    first_values(level);
    pages(level);
    for (const Value out : last_values(level, written)) level.b.output(out);
    return level.b.build();
  }

  void define_iterations(Level& level, Value width) {
    const Value all = level.b.extent(nest_.size());
    const Value left = level.b.binary(Opcode::sub, all, first_);
    const Value some = level.b.binary(Opcode::minimum, width, left);
    iterations_ = Dim::symbol((*free_symbol_)++);
    level.b.size(level.b.binary(Opcode::minimum, all, some), iterations_);
  }

  // Adds a loop over the iterations of the group to a level.
  std::vector<Value> add_loop(Level& level, const std::vector<Value>& carried, Level& body) {
    const Value start = level.number(0), step = level.number(1);
    return add_loop(level, start, level.b.extent(iterations_), step, carried, body);
  }
  std::vector<Value> add_loop(Level& level, Value start, Value stop, Value step,
                              const std::vector<Value>& carried, Level& body) {
    level.locate(loop_);
    const std::vector<Value> others = body.others();
    const Value loop = level.b.loop(start, stop, step, carried, body.b.build(), others);
    std::vector<Value> results;
    for (size_t k = 0; k < carried.size(); ++k)
      results.push_back(level.b.result(loop, static_cast<int64_t>(k)));
    return results;
  }

  // Computes what the inner loop starts from, and what it reads beside, for each iteration.
  void first_values(Level& level) {
    std::vector<Value> values;
    for (size_t k = 0; k < nest_.carried(); ++k) values.push_back(state(k));
    values.insert(values.end(), nest_.kept().begin(), nest_.kept().end());
    Level body(nest_, &level, body_.name(), loop_);
    body.set_iteration(body.input("iteration", {DType::I64, {}}));
    std::vector<Value> empties, tensors;
    for (const Value v : values) {
      const Type type = with_axis(type_of(v));
      empties.push_back(level.b.empty(type, static_cast<int64_t>(level.b.count())));
      tensors.push_back(body.input("kept", type));
    }
    for (size_t k = 0; k < values.size(); ++k)
      body.b.output(body.write(tensors[k], body.of(values[k])));
    const std::vector<Value> made = add_loop(level, empties, body);
    states_.assign(made.begin(), made.begin() + static_cast<int64_t>(nest_.carried()));
    size_t next = nest_.carried();
    for (const Value v : nest_.kept()) kept_[v] = made[next++];
  }

  // Runs the inner loop, each of its iterations for all of the group.
  void pages(Level& level) {
    const Node& loop = inner();
    const Graph& graph = loop.body();
    Level body(nest_, &level, graph.name(), loop);
    const Node& index = graph[graph.inputs()[0]];
    const Value at = body.input(index.attributes.name, index.type);
    std::vector<Value> states;
    for (size_t k = 0; k < nest_.carried(); ++k)
      states.push_back(body.input(name_of_state(k), level.b.type(states_[k])));
    Level work(nest_, &body, body_.name(), loop_);
    std::vector<Value> outs = one_page(work, body, at);
    for (const Value out : outs) work.b.output(out);
    for (const Value out : add_loop(body, states, work)) body.b.output(out);
    const Value start = level.of(loop.operands[0]), stop = level.of(loop.operands[1]),
                step = level.of(loop.operands[2]);
    states_ = add_loop(level, start, stop, step, states_, body);
  }
  std::vector<Value> one_page(Level& work, Level& around, Value at) {
    const Node& loop = inner();
    const Graph& graph = loop.body();
    work.set_iteration(work.input("iteration", {DType::I64, {}}));
    std::vector<Value> states, place(graph.nodes().size()), outs;
    for (size_t k = 0; k < nest_.carried(); ++k)
      states.push_back(work.input(name_of_state(k), with_axis(type_of(state(k)))));
    for (const auto& [v, tensor] : kept_) around.set_kept(v, tensor);
    work.keep_guards(graph);
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      Value& made = place[static_cast<size_t>(graph.inputs()[i])];
      if (i == 0)
        made = work.take(at, graph[graph.inputs()[0]].attributes.name);
      else if (i <= states.size())
        made = work.read(states[i - 1]);
      else
        made = work.of(loop.operands[i + operands_ahead(loop)]);
    }
    for (Value v = 0; v < static_cast<Value>(place.size()); ++v) {
      if (graph[v].is_parameter()) continue;
      std::vector<Value> operands;
      for (const Value operand : graph[v].operands)
        operands.push_back(place[static_cast<size_t>(operand)]);
      place[static_cast<size_t>(v)] = work.copy(graph[v], operands);
    }
    work.locate(loop_);
    for (size_t k = 0; k < states.size(); ++k)
      outs.push_back(work.write(states[k], place[static_cast<size_t>(graph.outputs()[k])]));
    return outs;
  }
  std::string name_of_state(size_t k) const {
    const Graph& graph = inner().body();
    return graph[graph.inputs()[1 + k]].attributes.name;
  }

  // Computes what follows the inner loop, for each iteration.
  std::vector<Value> last_values(Level& level, const std::vector<Value>& written) {
    Level body(nest_, &level, body_.name(), loop_);
    body.set_iteration(body.input("iteration", {DType::I64, {}}));
    for (size_t k = 0; k < written.size(); ++k) {
      const Node& node = body_[body_.inputs()[1 + k]];
      body.set(body_.inputs()[1 + k], body.input(node.attributes.name, node.type));
    }
    for (const auto& [v, tensor] : kept_) body.set_kept(v, tensor);
    for (Value v = nest_.inner(); v < static_cast<Value>(body_.nodes().size()); ++v) {
      const Node& node = body_[v];
      const bool is_result = node.op == Opcode::result && node.operands[0] == nest_.inner();
      if (!is_result && v != nest_.inner()) continue;
      const auto k = static_cast<size_t>(is_result ? node.attributes.index : 0);
      body.set_kept(v, states_[k]);
    }
    for (const Value out : body_.outputs()) body.b.output(body.of(out));
    return add_loop(level, written, body);
  }

  const LoopNest& nest_;
  const Graph& body_;
  const Node& loop_;
  int* const free_symbol_;
  Dim iterations_;             // of a group
  Value first_ = -1;           // of them
  std::vector<Value> states_;  // of the group, what the inner loop carries
  std::map<Value, Value> kept_;
};

Graph interchange(const Graph& graph, int* free_symbol) {
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
    Node node = with_bodies(old, [&](const Graph& body) { return interchange(body, free_symbol); });
    if (node.op != Opcode::loop) return b.copy(node, node.operands);
    const LoopNest nest(graph, v, node);
    if (!nest.pays()) return b.copy(node, node.operands);
    if (nest.obstacle().empty()) return Groups(nest, node, free_symbol).build(b);
    std::vector<Hint> hints = node.hints ? *node.hints : std::vector<Hint>{};
    hints.push_back({"keeps_order", {}, nest.obstacle()});
    b.set_hints(std::make_shared<const std::vector<Hint>>(std::move(hints)));
    return b.copy(node, node.operands);
  });
}

}  // namespace

Graph interchange_loops(const Graph& graph) {
  int64_t last = -1;
  for (const Node& node : graph.nodes())
    for (const int64_t symbol : symbols_of(node)) last = std::max(last, symbol);
  int free_symbol = static_cast<int>(last + 1);
  return interchange(graph, &free_symbol);
}

}  // namespace pto
