// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "pto/base/number.hpp"
#include "pto/base/size_program.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/comparisons.hpp"
#include "pto/ir/graph.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

size_t mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

// Equal nodes hash equally; rare names, values and shapes are left to the comparison.
size_t hash_of(const Node& node) {
  size_t hash = mix(static_cast<size_t>(node.op), static_cast<size_t>(node.type.dtype));
  for (const Value v : node.operands) hash = mix(hash, static_cast<size_t>(v));
  for (const int64_t axis : node.attributes.axes) hash = mix(hash, static_cast<size_t>(axis));
  hash = mix(hash, static_cast<size_t>(node.attributes.index));
  if (const auto* number = std::get_if<double>(&node.attributes.value))
    hash = mix(hash, std::isnan(*number) ? 1 : std::hash<double>()(*number));
  else
    hash = mix(hash, static_cast<size_t>(std::get<int64_t>(node.attributes.value)));
  return mix(hash, std::hash<std::string>()(node.attributes.name));
}

bool equal(const Node& a, const Node& b) {
  return a.op == b.op && a.operands == b.operands && a.type == b.type &&
         a.attributes == b.attributes;
}

Node make_node(Opcode op, std::vector<Value> operands, Type type = {}) {
  return {op, std::move(operands), {}, std::move(type), {}};
}

}  // namespace

template <class F>
auto GraphBuilder::located(F f) {
  try {
    return f();
  } catch (const Error& error) {
    throw error.at(text(location_));
  }
}

GraphBuilder::GraphBuilder(std::string name) { graph_.name_ = std::move(name); }

void GraphBuilder::set_location(Location location) { location_ = std::move(location); }
void GraphBuilder::clear_location() { location_ = {}; }
void GraphBuilder::set_hints(Hints hints) { hints_ = std::move(hints); }

const Node& GraphBuilder::node(Value v) const {
  PTO_ASSERT(v >= 0 && static_cast<size_t>(v) < graph_.nodes_.size());
  return graph_.nodes_[static_cast<size_t>(v)];
}

const Type& GraphBuilder::type(Value v) const { return node(v).type; }

void GraphBuilder::add_locations(Value v, const std::vector<Location>& locations) {
  auto& known = graph_.nodes_[static_cast<size_t>(v)].locations;
  for (const Location& location : locations)
    if (!location.file.empty() && std::find(known.begin(), known.end(), location) == known.end())
      known.push_back(location);
}

// Infers the type; returns an equal node that exists already.
Value GraphBuilder::add(Node node) {
  return located([&] {
    std::vector<const Node*> operands;
    for (const Value v : node.operands) operands.push_back(&this->node(v));
    node.type = infer(node, operands);
    const std::vector<Location> locations = std::move(node.locations);
    node.locations.clear();
    const size_t hash = hash_of(node);
    const auto [first, last] = index_.equal_range(hash);
    auto found = std::find_if(
        first, last, [&](const auto& entry) { return equal(this->node(entry.second), node); });
    if (found == last) {
      if (!node.hints) node.hints = hints_;
      graph_.nodes_.push_back(std::move(node));
      found = index_.emplace(hash, static_cast<Value>(graph_.nodes_.size() - 1));
    }
    add_locations(found->second, locations);
    add_locations(found->second, {location_});
    return found->second;
  });
}

// Adds a node and guards its sizes.
Value GraphBuilder::add_guarded(Node node) {
  return located([&] {
    const std::string name(info(node.op).name);
    const auto sizes = operation(node.op).sizes;
    const Value v = add(std::move(node));
    if (sizes == nullptr) return v;
    std::vector<const Node*> operands;
    for (const Value operand : this->node(v).operands) operands.push_back(&this->node(operand));
    for (const auto& [from, to, stretches, rule, body] : sizes(this->node(v), operands)) {
      if (stretches && from == Dim(1)) continue;
      guard_equal(stretches && sizes_may_be_one_ ? pto::broadcast(from, to) : from, to, name);
    }
    return v;
  });
}

Value GraphBuilder::input(std::string name, DType dtype, Dims shape) {
  Node node = make_node(Opcode::input, {}, {dtype, std::move(shape)});
  node.attributes.name = std::move(name);
  return copy(node, {});
}

Value GraphBuilder::scalar(std::string name, DType dtype) {
  Node node = make_node(Opcode::scalar, {}, {dtype, {}});
  node.attributes.name = std::move(name);
  return copy(node, {});
}

Value GraphBuilder::constant(double value, DType dtype) {
  Node node = make_node(Opcode::constant, {}, {dtype, {}});
  node.attributes.value = value;
  if (is_float(dtype))
    node.attributes.value = round_to(dtype, value);
  else if (value == std::trunc(value) && std::abs(value) < 0x1p63)
    node.attributes.value = static_cast<int64_t>(value);
  return add(std::move(node));
}

Value GraphBuilder::constant(int64_t value, DType dtype) {
  Node node = make_node(Opcode::constant, {}, {dtype, {}});
  if (is_float(dtype))
    node.attributes.value = round_to(dtype, static_cast<double>(value));
  else
    node.attributes.value = value;
  return add(std::move(node));
}

Value GraphBuilder::unary(Opcode op, Value a) {
  PTO_ASSERT(info(op).family == Family::Unary);
  return add(make_node(op, {a}));
}

Dims GraphBuilder::meet_possible_ones(const std::string& because, const Dims& a, const Dims& b) {
  Dims shape = a.size() >= b.size() ? a : b;
  const Dims& other = a.size() >= b.size() ? b : a;
  const size_t ahead = shape.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    Dim& size = shape[ahead + i];
    size = pto::broadcast(size, other[i]);
    guard_value(size, because);
  }
  return shape;
}

Dims GraphBuilder::meet(Opcode op, const Dims& a, const Dims& b) {
  const std::string name(info(op).name);
  if (sizes_may_be_one_) return meet_possible_ones(name, a, b);
  std::vector<std::pair<Dim, Dim>> same;
  Dims shape;
  try {
    shape = broadcast_shape(a, b, &same);
  } catch (const Error& error) {
    fail({name + ": " + error.text().what, error.text().why, error.text().fix});
  }
  for (const auto& [x, y] : same) guard_equal(x, y, name);
  return shape;
}

Value GraphBuilder::same_shape(Value v, const Dims& shape) {
  return type(v).shape == shape ? v
                                : add(make_node(Opcode::broadcast, {v}, {type(v).dtype, shape}));
}

Value GraphBuilder::binary(Opcode op, Value a, Value b) {
  PTO_ASSERT(info(op).family == Family::Binary || info(op).family == Family::Compare);
  return located([&] {
    if (type(a).dtype != type(b).dtype) return add(make_node(op, {a, b}));  // fails with the rule
    const Dims shape = meet(op, type(a).shape, type(b).shape);
    const Value left = same_shape(a, shape);
    return add(make_node(op, {left, same_shape(b, shape)}));
  });
}

Value GraphBuilder::where(Value condition, Value a, Value b) {
  return located([&] {
    const Dims values = meet(Opcode::where, type(a).shape, type(b).shape);
    const Dims shape = meet(Opcode::where, values, type(condition).shape);
    const Value c = same_shape(condition, shape), x = same_shape(a, shape);
    return add(make_node(Opcode::where, {c, x, same_shape(b, shape)}));
  });
}

Value GraphBuilder::cast(Value a, DType dtype) {
  return add(make_node(Opcode::cast, {a}, {dtype, {}}));
}

Value GraphBuilder::reduce(Opcode op, Value a, std::vector<int64_t> axes) {
  PTO_ASSERT(info(op).family == Family::Reduce);
  Node node = make_node(op, {a});
  node.attributes.axes =
      located([&] { return normal_axes(op, std::move(axes), type(a).shape.size()); });
  return add(std::move(node));
}

Value GraphBuilder::broadcast(Value a, Dims shape) {
  if (type(a).shape == shape) return a;
  return add_guarded(make_node(Opcode::broadcast, {a}, {type(a).dtype, std::move(shape)}));
}

Value GraphBuilder::reshape(Value a, Dims shape) {
  if (type(a).shape == shape) return a;
  return add_guarded(make_node(Opcode::reshape, {a}, {type(a).dtype, std::move(shape)}));
}

Value GraphBuilder::transpose(Value a, std::vector<int64_t> axes) {
  Node node = make_node(Opcode::transpose, {a});
  for (int64_t& axis : axes)
    if (axis < 0) axis += static_cast<int64_t>(type(a).shape.size());
  node.attributes.axes = std::move(axes);
  return add(std::move(node));
}

namespace {

// Equal parts have equal steps: 1 where a single element lies, and none where all are 1.
std::vector<int64_t> least_steps(std::vector<int64_t> steps, const Dims& part) {
  for (size_t i = 0; i < std::min(steps.size(), part.size()); ++i)
    if (is_one(part[i]) && steps[i] > 0) steps[i] = 1;
  const bool has_steps = std::any_of(steps.begin(), steps.end(), [](int64_t k) { return k != 1; });
  return has_steps ? steps : std::vector<int64_t>();
}

}  // namespace

Value GraphBuilder::view(Value a, std::vector<Value> offsets, Dims shape,
                         std::vector<int64_t> steps) {
  offsets.insert(offsets.begin(), a);
  Node node = make_node(Opcode::view, std::move(offsets), {type(a).dtype, std::move(shape)});
  node.attributes.axes = least_steps(std::move(steps), node.type.shape);
  return add(std::move(node));
}

Value GraphBuilder::update(Value into, Value part, std::vector<Value> offsets,
                           std::vector<int64_t> steps) {
  offsets.insert(offsets.begin(), {into, part});
  Node node = make_node(Opcode::update, std::move(offsets));
  node.attributes.axes = least_steps(std::move(steps), type(part).shape);
  return add(std::move(node));
}

Value GraphBuilder::concat(std::vector<Value> parts, int64_t axis) {
  return along(Opcode::concat, std::move(parts), axis);
}

Value GraphBuilder::along(Opcode op, std::vector<Value> operands, int64_t axis) {
  Node node = make_node(op, std::move(operands));
  node.attributes.axes = {axis};
  return add_guarded(std::move(node));
}

Value GraphBuilder::iota(Dims shape, int64_t axis) {
  Node node = make_node(Opcode::iota, {}, {DType::I64, std::move(shape)});
  node.attributes.axes = {axis};
  return add(std::move(node));
}

Value GraphBuilder::empty(const Type& type, int64_t index) {
  Node node = make_node(Opcode::empty, {}, type);
  node.attributes.index = index;
  return add(std::move(node));
}

Value GraphBuilder::sort(Opcode op, Value a) { return add(make_node(op, {a})); }

Value GraphBuilder::size(Value count, const Dim& symbol, Value condition) {
  Node node = make_node(Opcode::size, {count});
  node.attributes.size = symbol;
  if (condition >= 0) add_comparisons(graph_, condition, &node);
  return add(std::move(node));
}

Value GraphBuilder::extent(const Dim& size) {
  Node node = make_node(Opcode::extent, {});
  node.attributes.size = size;
  return add(std::move(node));
}

Value GraphBuilder::matmul(Value a, Value b) { return matmul(a, b, type(a).dtype); }

Value GraphBuilder::matmul(Value a, Value b, DType result, std::string precision) {
  Node node = make_node(Opcode::matmul, {a, b}, {result, {}});
  node.attributes.name = std::move(precision);
  return add_guarded(std::move(node));
}

Value GraphBuilder::loop(Value start, Value stop, Value step, std::vector<Value> carried,
                         Graph body, std::vector<Value> others) {
  carried.insert(carried.begin(), {start, stop, step});
  carried.insert(carried.end(), others.begin(), others.end());
  Node node = make_node(Opcode::loop, std::move(carried));
  node.attributes.bodies = {std::make_shared<const Graph>(std::move(body))};
  return add(std::move(node));
}

Value GraphBuilder::repeat(std::vector<Value> carried, Graph condition, Graph step,
                           std::vector<Value> others) {
  carried.insert(carried.end(), others.begin(), others.end());
  Node node = make_node(Opcode::repeat, std::move(carried));
  node.attributes.bodies = {std::make_shared<const Graph>(std::move(condition)),
                            std::make_shared<const Graph>(std::move(step))};
  return add(std::move(node));
}

Value GraphBuilder::branch(Value condition, std::vector<Value> operands, Graph then,
                           Graph otherwise) {
  operands.insert(operands.begin(), condition);
  Node node = make_node(Opcode::branch, std::move(operands));
  node.attributes.bodies = {std::make_shared<const Graph>(std::move(then)),
                            std::make_shared<const Graph>(std::move(otherwise))};
  return add(std::move(node));
}

Value GraphBuilder::fused(std::vector<Value> operands, Graph body) {
  Node node = make_node(Opcode::fused, std::move(operands));
  node.attributes.bodies = {std::make_shared<const Graph>(std::move(body))};
  return add(std::move(node));
}

Value GraphBuilder::result(Value of, int64_t index) {
  Node node = make_node(Opcode::result, {of});
  node.attributes.index = index;
  return add(std::move(node));
}

Value GraphBuilder::tile(std::string name, std::vector<Value> operands,
                         std::shared_ptr<const Graph> body) {
  return located([&] {
    Dims shape;
    for (const Value v : operands) shape = meet(Opcode::tile, shape, type(v).shape);
    for (Value& v : operands) v = same_shape(v, shape);
    Node node = make_node(Opcode::tile, std::move(operands));
    node.attributes.name = std::move(name);
    if (body != nullptr) node.attributes.bodies = {std::move(body)};
    return add(std::move(node));
  });
}

Value GraphBuilder::copy(const Node& node, std::vector<Value> operands) {
  Node twin = node;
  twin.operands = std::move(operands);
  if (!node.is_parameter()) return add(std::move(twin));
  for (const Value v : graph_.inputs_)
    if (this->node(v).attributes.name == node.attributes.name)
      located([&] {
        fail({"input: the name " + in_quotes(node.attributes.name) + " is used twice",
              "the inputs of a graph have different names", "rename one of them"});
      });
  graph_.inputs_.push_back(add(std::move(twin)));
  return graph_.inputs_.back();
}

void GraphBuilder::add_guard(Guard guard) {
  for (const Guard& known : graph_.guards_)
    if ((known.a == guard.a && known.b == guard.b) || (known.a == guard.b && known.b == guard.a))
      return;
  graph_.guards_.push_back(std::move(guard));
}

void GraphBuilder::guard_equal(const Dim& a, const Dim& b, std::string because, GuardKind kind) {
  if (a == b) return;
  located([&] {
    if (!may_equal(a, b))
      fail({because + ": sizes " + text(a) + " and " + text(b) + " must be equal",
            "the operation needs operands of one size", "reshape or slice an operand"});
  });
  add_guard({{a, b, std::move(because), kind}, location_});
}

void GraphBuilder::guard_value(const Dim& size, std::string because) {
  if (size.is_constant() || size.is_symbol()) return;
  add_guard({{size, size, std::move(because)}, location_});
}

void GraphBuilder::copy_guard(const Guard& guard) {
  set_location(guard.location);
  if (guard.a == guard.b) return guard_value(guard.a, guard.because);
  guard_equal(guard.a, guard.b, guard.because, guard.kind);
}

void GraphBuilder::guard_nonempty(const Dim& size, std::string because) {
  located([&] {
    if (size == Dim(0)) fail(empty_reduction(because));
  });
  const SizeGuard guard = SizeGuard::nonempty(size, std::move(because));
  guard_equal(guard.a, guard.b, guard.because, guard.kind);
}

void GraphBuilder::guard_holds(const Dim& count, std::string because) {
  const SizeGuard guard = SizeGuard::holds(count, std::move(because));
  guard_equal(guard.a, guard.b, guard.because, guard.kind);
}

void GraphBuilder::order_inputs(std::vector<Value> inputs) {
  PTO_ASSERT(std::is_permutation(inputs.begin(), inputs.end(), graph_.inputs_.begin(),
                                 graph_.inputs_.end()));
  graph_.inputs_ = std::move(inputs);
}

void GraphBuilder::output(Value v) {
  node(v);
  graph_.outputs_.push_back(v);
}

Graph GraphBuilder::build() {
  located([&] {
    if (graph_.outputs_.empty())
      fail({"graph " + in_quotes(graph_.name_) + " has no output",
            "a program computes at least one output", "return a value"});
  });
  std::vector<Value> order = graph_.inputs_, place(graph_.nodes_.size());
  for (Value v = 0; static_cast<size_t>(v) < graph_.nodes_.size(); ++v)
    if (node(v).op != Opcode::input && node(v).op != Opcode::scalar) order.push_back(v);
  for (size_t i = 0; i < order.size(); ++i)
    place[static_cast<size_t>(order[i])] = static_cast<Value>(i);
  const auto move_all = [&](std::vector<Value>& values) {
    for (Value& v : values) v = place[static_cast<size_t>(v)];
  };
  std::vector<Node> nodes;
  for (const Value v : order) {
    nodes.push_back(std::move(graph_.nodes_[static_cast<size_t>(v)]));
    move_all(nodes.back().operands);
  }
  graph_.nodes_ = std::move(nodes);
  move_all(graph_.inputs_);
  move_all(graph_.outputs_);
  index_.clear();
  return std::move(graph_);
}

Dims broadcast_shape(const Dims& a, const Dims& b, std::vector<std::pair<Dim, Dim>>* equal) {
  const Dims &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Dims shape = longer;
  const size_t skipped = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim &x = longer[skipped + i], &y = shorter[i];
    if (x == y || y == Dim(1)) continue;
    if (!may_equal(x, y) && x != Dim(1))
      fail({"shapes " + text(a) + " and " + text(b) + " do not broadcast: " + text(x) + " and " +
                text(y) + " differ",
            "aligned at the last axis, sizes are equal or one of them is 1",
            "reshape, slice or unsqueeze an operand"});
    if (x == Dim(1) || y.is_constant()) shape[skipped + i] = y;
    if (x != Dim(1) && equal != nullptr) equal->emplace_back(x, y);
  }
  return shape;
}

}  // namespace pto
