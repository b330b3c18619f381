// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/interchange_loops.hpp"

#include <algorithm>
#include <map>

#include "pto/ir/made.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/passes/loop_halves.hpp"
#include "pto/passes/loop_level.hpp"

namespace pto {
namespace {

// Builds the loop over groups in the place of the outer loop.
class Groups {
 public:
  Groups(const LoopNest& nest, const Node& loop, int* free_symbol)
      : nest_(nest), halves_(nest), body_(nest.body()), loop_(loop), free_symbol_(free_symbol) {}

  Value build(GraphBuilder& b) {
    std::vector<Value> operands = loop_.operands;
    const Value one = b.constant(int64_t{1}, DType::I64);
    operands[2] = b.binary(Opcode::maximum, operands[1], one);
    operands.push_back(operands[2]);
    Node made = loop_;
    made.operands = operands;
    made.attributes.bodies = {std::make_shared<const Graph>(group())};
    b.set_hints(with_hint(loop_.hints, {"any_step", {}, "loops changed places"}));
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
    page_ = {graph.inputs()[0], body.input(index.attributes.name, index.type)};
    std::vector<Value> states;
    for (size_t k = 0; k < nest_.carried(); ++k)
      states.push_back(body.input(name_of_state(k), level.b.type(states_[k])));
    for (const auto& [v, tensor] : kept_) body.set_kept(v, tensor);
    if (halves_.any()) body.keep_guards(graph);
    for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v)
      if (halves_.any() && graph[v].op == Opcode::size) in_page(body, v);
    std::vector<Value> tensors;  // of what crosses
    for (const Value v : halves_.crossing())
      if (halves_.any())
        tensors.push_back(
            body.b.empty(with_axis(graph[v].type), static_cast<int64_t>(body.b.count())));
    tensors = half(body, true, &states, tensors);
    if (halves_.any()) half(body, false, &states, tensors);
    for (const Value state : states) body.b.output(state);
    const Value start = level.of(loop.operands[0]), stop = level.of(loop.operands[1]),
                step = level.of(loop.operands[2]);
    states_ = add_loop(level, start, stop, step, states_, body);
  }

  // A value of the inner loop's body that all iterations of the group share.
  Value in_page(Level& body, Value v) {
    if (v == page_.first) return page_.second;
    if (const auto known = common_.find(v); known != common_.end()) return known->second;
    const Graph& graph = inner().body();
    if (graph[v].is_parameter()) return common_[v] = body.of(given(v));
    std::vector<Value> operands;
    for (const Value operand : graph[v].operands) operands.push_back(in_page(body, operand));
    return common_[v] = body.copy(graph[v], operands);
  }
  // The value of the outer loop's body that an input of the inner one's is, or begins with.
  Value given(Value input) const {
    const auto& inputs = inner().body().inputs();
    const auto place = std::find(inputs.begin(), inputs.end(), input) - inputs.begin();
    return inner().operands[static_cast<size_t>(place) + operands_ahead(inner())];
  }

  // Adds the loop over the group with a half of the inner loop's body, or all of it: it changes
  // states, and the first half writes `tensors`, which the second one reads; returns them.
  std::vector<Value> half(Level& body, bool is_first, std::vector<Value>* states,
                          const std::vector<Value>& tensors) {
    const Graph& graph = inner().body();
    const bool is_all = !halves_.any();
    Level work(nest_, &body, body_.name(), loop_);
    work.set_iteration(work.input("iteration", {DType::I64, {}}));
    std::vector<size_t> changed;
    std::vector<Value> carried, inputs;
    std::map<Value, Value> place;
    for (size_t k = 0; k < states->size(); ++k) {
      if (!is_all && halves_.is_late(k) == is_first) continue;
      changed.push_back(k);
      carried.push_back((*states)[k]);
      inputs.push_back(work.input(name_of_state(k), with_axis(type_of(state(k)))));
      place[graph.inputs()[1 + k]] = work.read(inputs.back());
    }
    size_t next = 0;
    for (const Value v : halves_.crossing()) {
      if (is_all) break;
      const Value tensor = tensors[next++];
      if (!is_first) {
        place[v] = work.read(work.take(tensor, "kept"));
        continue;
      }
      carried.push_back(tensor);
      inputs.push_back(work.input("kept", body.b.type(tensor)));
    }
    if (is_all) work.keep_guards(graph);
    for (Value v = 0; is_all && v < static_cast<Value>(graph.nodes().size()); ++v)
      if (graph[v].op == Opcode::size) in_work(work, body, v, &place);
    std::vector<Value> outs;
    for (const size_t k : changed)
      outs.push_back(
          work.write(inputs[outs.size()], in_work(work, body, graph.outputs()[k], &place)));
    for (const Value v : halves_.crossing())
      if (!is_all && is_first)
        outs.push_back(work.write(inputs[outs.size()], in_work(work, body, v, &place)));
    for (const Value out : outs) work.b.output(out);
    const std::vector<Value> made = add_loop(body, carried, work);
    for (size_t i = 0; i < changed.size(); ++i) (*states)[changed[i]] = made[i];
    return {made.begin() + static_cast<int64_t>(changed.size()), made.end()};
  }
  // A value of the inner loop's body in an iteration of the group.
  Value in_work(Level& work, Level& body, Value v, std::map<Value, Value>* place) {
    if (const auto known = place->find(v); known != place->end()) return known->second;
    const Node& node = inner().body()[v];
    Value& made = (*place)[v];
    if (v == page_.first || (halves_.any() && halves_.is_common(v)))
      return made =
                 work.take(in_page(body, v), node.is_parameter() ? node.attributes.name : "number");
    if (node.is_parameter()) return made = work.of(given(v));
    std::vector<Value> operands;
    for (const Value operand : node.operands)
      operands.push_back(in_work(work, body, operand, place));
    return (*place)[v] = work.copy(node, operands);
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
  const LoopHalves halves_;
  const Graph& body_;
  const Node& loop_;
  int* const free_symbol_;
  Dim iterations_;             // of a group
  Value first_ = -1;           // of them
  std::vector<Value> states_;  // of the group, what the inner loop carries
  std::map<Value, Value> kept_;
  std::pair<Value, Value> page_;   // the index of the inner loop, in its body and in the group
  std::map<Value, Value> common_;  // of the inner loop's body, in the group
};

Graph interchange(const Graph& graph, int* free_symbol) {
  return rebuild(graph, graph.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
    Node node = with_bodies(old, [&](const Graph& body) { return interchange(body, free_symbol); });
    if (node.op != Opcode::loop) return b.copy(node, node.operands);
    const LoopNest nest(graph, v, node);
    if (!nest.pays()) return b.copy(node, node.operands);
    if (nest.obstacle().empty()) return Groups(nest, node, free_symbol).build(b);
    b.set_hints(with_hint(node.hints, {"keeps_order", {}, nest.obstacle()}));
    return b.copy(node, node.operands);
  });
}

}  // namespace

Graph interchange_loops(const Graph& graph) {
  int free_symbol = free_symbol_of(graph);
  return interchange(graph, &free_symbol);
}

}  // namespace pto
