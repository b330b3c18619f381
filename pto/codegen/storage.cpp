// SPDX-License-Identifier: Apache-2.0
#include "pto/codegen/storage.hpp"

#include <algorithm>
#include <climits>

#include "pto/codegen/region_plan.hpp"
#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/uses.hpp"

namespace pto {
namespace {

struct Read {
  int time;
  size_t operand;  // of the node at that time
};

class StoragePlanner {
 public:
  StoragePlanner(const Graph& graph, const std::vector<Given>& given)
      : graph_(graph), given_(given), uses_(graph) {}

  Storage run() {
    for (size_t k = 0; k < graph_.outputs().size(); ++k) place_output(k);
    for (Value v = static_cast<Value>(graph_.nodes().size()); v-- > 0;) {
      const Node& node = graph_[v];
      if (!makes_tensors(node.op)) continue;
      const auto results = operation(node.op).results;
      const int count = results == nullptr ? 1 : static_cast<int>(results(node).size());
      for (int i = 0; i < count; ++i)
        if (node.has_body() || count == 1 || !values_of({v, i}).empty()) place_alone({v, i});
    }
    return std::move(plan_);
  }

 private:
  struct Buffer {
    int output;
    Value holder;
    bool is_dense;
  };

  // --- who reads a value, and when ---------------------------------------------------------------

  // A read of `v` by this use is at the time of the node, or where its addresses are used.
  void reads_of(Value v, std::vector<Read>* reads) const {
    for (const auto& [user, operand] : uses_.of(v)) {
      if (!is_address(user))
        reads->push_back({user, operand});
      else
        reads_of(user, reads);
    }
    if (uses_.is_output(v)) reads->push_back({INT_MAX, 0});
  }
  bool is_address(Value v) const {
    return only_moves(graph_[v].op) && !plan_.copied_moves.count(v) && !is_number_step(v);
  }
  // A number that is taken out of a tensor is read at its own place.
  bool is_number_step(Value v) const {
    return graph_[v].op != Opcode::view && is_number(graph_[v].type);
  }

  // Makes sure that at the time of `by` nobody else still has to read `v`: addresses that are used
  // later become copies. `skipped` is an operand of `by` that does not count. False: not possible.
  bool make_quiet(Value v, Made by, int skipped) {
    std::vector<Value> to_copy;
    const auto is_skipped = [&](Value user, size_t operand) {
      return user == by.node && static_cast<int>(operand) == skipped;
    };
    for (const auto& [user, operand] : uses_.of(v)) {
      if (is_skipped(user, operand)) continue;
      if (!is_address(user)) {
        if (user > by.node || (user == by.node && !reads_first(by, operand))) return false;
        continue;
      }
      std::vector<Read> reads;
      reads_of(user, &reads);
      const bool late = std::any_of(reads.begin(), reads.end(), [&](const Read& read) {
        return read.time >= by.node && !is_skipped(read.time, read.operand);
      });
      if (late && user >= by.node) return false;
      if (late) to_copy.push_back(user);
    }
    plan_.copied_moves.insert(to_copy.begin(), to_copy.end());
    return true;
  }
  bool reads_first(Made by, size_t operand) const {
    const Node& node = graph_[by.node];
    return node.op == Opcode::fused &&
           may_write_over(node.body(), operand, static_cast<size_t>(by.index));
  }

  // The values of a made tensor: the node, or its results.
  std::vector<Value> values_of(Made made) const {
    std::vector<Value> values;
    if (made.index == 0 && uses_.is_read(made.node)) values.push_back(made.node);
    for (Value v = made.node; v < static_cast<Value>(graph_.nodes().size()); ++v)
      if (made_by(graph_, v) == made && v != made.node) values.push_back(v);
    return values;
  }

  // --- placing -----------------------------------------------------------------------------------

  void place_output(size_t k) {
    const Value out = graph_.outputs()[k];
    if (!given_[k].is_given) return;
    const Made made = made_by(graph_, given_[k].is_dense ? reshaped_from(graph_, out) : out);
    const bool unchanged = out == given_[k].holder;
    if (unchanged) return;
    if (made.node < 0 || plan_.homes.count(made) || is_number(graph_[out].type)) {
      plan_.copied_outputs.insert(k);
      return;
    }
    buffers_.push_back({static_cast<int>(k), given_[k].holder, given_[k].is_dense});
    plan_.given.push_back(static_cast<int>(k));
    if (!place(made, static_cast<int>(buffers_.size()) - 1)) plan_.copied_outputs.insert(k);
  }

  void place_alone(Made made) {
    if (plan_.homes.count(made)) return;
    buffers_.push_back({-1, -1, true});
    plan_.given.push_back(-1);
    place(made, static_cast<int>(buffers_.size()) - 1);
  }

  // Puts a tensor into a buffer, and what it continues where that is possible. False: what lies
  // there is read later.
  bool place(Made made, int buffer) {
    const Value holder = buffers_[static_cast<size_t>(buffer)].holder;
    const int start = start_of(graph_, made);
    const Value from = start < 0 ? -1 : started_from(made.node, start, buffer);
    const bool continues = start >= 0 && from == holder;
    if (holder >= 0 &&
        (uses_.is_output(holder) || !make_quiet(holder, made, continues ? start : -1)))
      return false;
    plan_.homes[made] = {buffer, -1};
    if (continues)
      plan_.continued.insert(static_cast<size_t>(buffers_[static_cast<size_t>(buffer)].output));
    if (graph_[made.node].op == Opcode::concat && holder < 0) place_joined(made.node, buffer);
    if (start < 0) return true;
    if (!continues && !continue_from(from, made, start, buffer))
      plan_.copies.insert({made.node, static_cast<size_t>(start)});
    else if (graph_[made.node].op == Opcode::update)
      place_part(made.node, from, buffer);
    return true;
  }

  // Returns the value from which a node goes on; in memory without gaps its shape may be another.
  Value started_from(Value node, int start, int buffer) const {
    const Value from = graph_[node].operands[static_cast<size_t>(start)];
    return buffers_[static_cast<size_t>(buffer)].is_dense ? reshaped_from(graph_, from) : from;
  }

  // Puts `from`, from which `made` goes on, into the same buffer.
  bool continue_from(Value from, Made made, int operand, int buffer) {
    const Made before = made_by(graph_, from);
    if (before.node < 0 || plan_.homes.count(before) || uses_.is_output(from)) return false;
    if (values_of(before).size() != 1 || !make_quiet(from, made, operand)) return false;
    return place(before, buffer);
  }

  // Says whether a tensor may be made where the only value that reads it puts it.
  bool is_free(Made part) const {
    if (part.node < 0 || plan_.homes.count(part)) return false;
    const Opcode op = graph_[part.node].op;
    const bool is_apart = op != Opcode::concat && start_of(graph_, part) < 0;
    if (!is_apart || op == Opcode::branch) return false;
    const auto values = values_of(part);
    return values.size() == 1 && uses_.is_read_once(values[0]);
  }

  // Lets who computes what a concat joins write it where it belongs. Only kernels store columns.
  void place_joined(Value concat, int buffer) {
    const Dims& whole = graph_[concat].type.shape;
    for (const Value operand : graph_[concat].operands) {
      const bool is_column = is_one(graph_[operand].type.shape.back()) && !is_one(whole.back());
      const Made part = joined_by(graph_, operand);
      if (is_column && (part.node < 0 || graph_[part.node].op != Opcode::fused)) continue;
      const bool is_moved = part.node >= 0 && made_by(graph_, operand) != part;
      if (is_free(part) && (!is_moved || uses_.is_read_once(operand)))
        plan_.homes[part] = {buffer, concat};
    }
  }

  // Lets who computes the part of an update write it where it belongs.
  void place_part(Value update, Value from, int buffer) {
    const Node& node = graph_[update];
    const Made part = made_by(graph_, node.operands[1]);
    if (!is_free(part)) return;
    const Made before = made_by(graph_, from);
    if (before.node >= part.node) return;
    for (size_t i = 2; i < node.operands.size(); ++i)
      if (node.operands[i] >= part.node && !graph_[node.operands[i]].is_parameter()) return;
    std::vector<Read> reads;
    reads_of(from, &reads);
    for (const Read& read : reads) {
      const bool is_later = read.time >= part.node && !(read.time == update && read.operand == 0);
      if (is_later && !reads_where_it_writes(read, part, update)) return;
    }
    plan_.homes[part] = {buffer, update};
  }

  // Says whether a kernel reads the very part that it computes, each element before it is written.
  bool reads_where_it_writes(const Read& read, Made part, Value update) const {
    if (read.time != part.node || !reads_first(part, read.operand)) return false;
    Value from = graph_[part.node].operands[read.operand];
    while (graph_[from].op == Opcode::reshape && !regroups(graph_, graph_[from]))
      from = graph_[from].operands[0];
    const Node& view = graph_[from];
    const Node& write = graph_[update];
    return view.op == Opcode::view && view.operands[0] == write.operands[0] &&
           view.type.shape == graph_[write.operands[1]].type.shape &&
           view.attributes.axes == write.attributes.axes &&
           std::equal(view.operands.begin() + 1, view.operands.end(), write.operands.begin() + 2,
                      write.operands.end());
  }

  const Graph& graph_;
  const std::vector<Given>& given_;
  const Uses uses_;
  std::vector<Buffer> buffers_;
  Storage plan_;
};

}  // namespace

Made joined_by(const Graph& graph, Value operand) {
  const Node& node = graph[operand];
  const bool is_moved = node.op == Opcode::reshape && !regroups(graph, node);
  return made_by(graph, is_moved ? node.operands[0] : operand);
}

Storage plan_storage(const Graph& graph, const std::vector<Given>& given) {
  return StoragePlanner(graph, given).run();
}

}  // namespace pto
