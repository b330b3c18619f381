// SPDX-License-Identifier: Apache-2.0
// Level: a graph that interchange_loops builds, a group of iterations or a loop in it, with places
// of the values of the outer loop's body.
//
//     Level group(nest, nullptr, "heads", loop);
//     Level pages(nest, &group, "pages", loop);
//     pages.of(v);      // recomputed here, read where it is kept, or an input that group gives
//
// Thread safety: none; one pass owns it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pto/ir/infer.hpp"
#include "pto/passes/loop_nest.hpp"

namespace pto {

class Level {
 public:
  Level(const LoopNest& nest, Level* around, const std::string& name, const Node& loop)
      : b(name), nest_(nest), around_(around), loop_(loop) {
    locate(loop);
  }

  GraphBuilder b;

  Value input(std::string name, const Type& type) {
    locate(loop_);
    while (!names_.insert(name).second) name += "_";
    return b.input(name, type.dtype, type.shape);
  }
  // An input that has this value of the level around it.
  Value take(Value outer, const std::string& name) {
    const auto known = taken_.find(outer);
    if (known != taken_.end()) return known->second;
    others_.push_back(outer);
    return taken_[outer] = input(name, around_->b.type(outer));
  }
  const std::vector<Value>& others() const { return others_; }  // of the level around it

  void set(Value v, Value here) { made_[v] = here; }
  // The iteration of the loop that this level is; the group begins at `first` of the level around.
  void set_iteration(Value at) { at_ = at; }
  void set_first(Value first) { first_ = first; }
  // A tensor of the level around this one has a value of each iteration.
  void set_kept(Value v, Value tensor) { kept_[v] = tensor; }

  // The value here that a value of the outer loop's body has in this iteration.
  Value of(Value v) {
    if (const auto known = made_.find(v); known != made_.end()) return known->second;
    const Node& node = nest_.body()[v];
    if (const std::optional<Value> tensor = kept(v)) return made_[v] = read(*tensor);
    if (v == nest_.body().inputs()[0]) return made_[v] = index();
    const bool is_same = is_number(node.type) && nest_.is_common(v) && !node.operands.empty();
    if (around_ != nullptr && (node.is_parameter() || is_same))
      return made_[v] = take(around_->of(v), node.is_parameter() ? node.attributes.name : "number");
    std::vector<Value> operands;
    for (const Value operand : node.operands) operands.push_back(of(operand));
    return made_[v] = copy(node, operands);
  }

  Value copy(const Node& node, const std::vector<Value>& operands) {
    locate(node);
    b.set_hints(node.hints);
    const Value made = b.copy(node, operands);
    b.add_locations(made, node.locations);
    b.set_hints({});
    return made;
  }
  void keep_guards(const Graph& graph) {
    for (const Guard& guard : graph.guards()) b.copy_guard(guard);
  }

  Value number(int64_t value) {
    locate(loop_);
    return b.constant(value, DType::I64);
  }
  // The part of a tensor that this iteration has, and the tensor with another one.
  Value read(Value tensor) {
    Dims part = b.type(tensor).shape;
    const std::vector<Value> offsets = offsets_in(part.size());
    part[0] = 1;
    const Value row = b.view(tensor, offsets, part);
    return b.reshape(row, {part.begin() + 1, part.end()});
  }
  Value write(Value tensor, Value value) {
    Dims part = b.type(value).shape;
    const std::vector<Value> offsets = offsets_in(part.size() + 1);
    part.insert(part.begin(), 1);
    return b.update(tensor, b.reshape(value, part), offsets);
  }
  void locate(const Node& node) {
    b.clear_location();
    if (!node.locations.empty()) b.set_location(node.locations[0]);
  }

 private:
  std::optional<Value> kept(Value v) {
    if (const auto known = kept_.find(v); known != kept_.end()) return take(known->second, "kept");
    const std::optional<Value> outer = around_ == nullptr ? std::nullopt : around_->kept(v);
    return outer ? std::optional<Value>(take(*outer, "kept")) : std::nullopt;
  }
  Value first() { return around_ == nullptr ? first_ : take(around_->first(), "first"); }
  Value index() {
    const Value begin = first();
    locate(loop_);
    return b.binary(Opcode::add, begin, at_);
  }
  std::vector<Value> offsets_in(size_t rank) {
    std::vector<Value> offsets(rank, number(0));
    offsets[0] = at_;
    return offsets;
  }

  const LoopNest& nest_;
  Level* const around_;
  const Node& loop_;
  std::set<std::string> names_;
  std::map<Value, Value> taken_, made_, kept_;
  std::vector<Value> others_;
  Value at_ = -1, first_ = -1;
};

}  // namespace pto
