// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/cut_points.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "pto/ir/axis_map.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/passes/late_reads.hpp"

namespace pto {
namespace {

// Gives a number to each part that hints ask for.
class Parts {
 public:
  // `link`: the number of its piece of the chain.
  int part_of(const Node& node, int link) {
    std::string name = "cut " + std::to_string(hint_number(node, "cut")) + " leaf " +
                       std::to_string(hint_number(node, "leaf_call"));
    if (const int64_t most = hint_number(node, "merge"); most > 0) {
      name += " merge " + std::to_string(most);
      name += " from " + std::to_string(operations_[name]++ / most);
    }
    if (link > 0) name += " link " + std::to_string(link);
    return parts_.emplace(name, static_cast<int>(parts_.size())).first->second;
  }

 private:
  std::map<std::string, int64_t> operations_;
  std::map<std::string, int> parts_ = {{"cut 0 leaf 0", 0}};
};

// Says whether a shape has along these axes of `whole` either all of its sizes or only sizes of 1.
bool is_all_or_none(const Dims& shape, const Dims& whole, const std::vector<int64_t>& axes) {
  size_t ones = 0, equal = 0;
  for (const int64_t axis : axes) {
    const int64_t at = axis - static_cast<int64_t>(whole.size() - shape.size());
    if (at < 0 || is_one(shape[static_cast<size_t>(at)]))
      ++ones;
    else
      equal += shape[static_cast<size_t>(at)] == whole[static_cast<size_t>(axis)];
  }
  return ones == axes.size() || equal == axes.size();
}

// Says whether loops over several summed axes are the same wherever kernels end: they become one
// loop where all that the kernel reads lies along both or along none.
bool keeps_sums(const Graph& graph) {
  for (const Node& sum : graph.nodes()) {
    if (sum.op != Opcode::sum && sum.op != Opcode::prod) continue;
    if (is_count(graph, sum) || reduction(graph, sum).axes.size() < 2) continue;
    const Dims& whole = graph[sum.operands[0]].type.shape;
    std::vector<int64_t> axes;
    for (const int64_t axis : sum.attributes.axes)
      if (!is_one(whole[static_cast<size_t>(axis)])) axes.push_back(axis);
    for (const Node& node : graph.nodes()) {
      const bool moves = node.op == Opcode::transpose || node.op == Opcode::reshape;
      if (moves || node.type.shape.size() > whole.size()) return false;
      if (!is_all_or_none(node.type.shape, whole, axes)) return false;
    }
  }
  return true;
}

// Operations in a row that one kernel may have: fusion and printing go down to the first of them.
constexpr int kMostInOnePart = 8192;

class Cutter {
 public:
  Cutter(const Graph& graph, bool is_body, int longest)
      : graph_(graph), steps_(graph, is_body), late_(graph, steps_) {
    for (const Node& node : graph.nodes())
      if (const auto place = taken_product(node)) products_.insert(node.operands[*place]);
    Parts parts;
    std::vector<int> length(graph.nodes().size());  // of the chain that ends here
    for (Value v = 0; v < static_cast<Value>(graph.nodes().size()); ++v) {
      int& here = length[static_cast<size_t>(v)];
      for (const Value operand : graph[v].operands)
        here = std::max(here, length[static_cast<size_t>(operand)]);
      here = steps_.has(v) ? 0 : here + is_computed(v);
      longest_ = std::max(longest_, here);
      part_.push_back(is_computed(v) ? parts.part_of(graph[v], (here - 1) / longest) : 0);
    }
  }

  CutGraph run() {
    const bool is_one_part =
        std::all_of(part_.begin(), part_.end(), [](int p) { return p == 0; }) && !late_.any();
    if (is_one_part || !keeps_sums(graph_)) {
      if (longest_ > kMostInOnePart)
        fail({graph_.name() + ": " + std::to_string(longest_) +
                  " operations follow each other in " + "one kernel",
              "it may have " + std::to_string(kMostInOnePart) +
                  ", and a sum over several axes keeps the graph from being cut",
              "loop over them with pto.loop, or sum in a function of its own"});
      return {graph_, std::vector<bool>(part_.size()), std::vector<int>(part_.size())};
    }
    CutGraph cut{rebuild(graph_, graph_.outputs(),
                         [&](GraphBuilder& b, const Node& node, Value v) {
                           return made_[v] = copy(b, node, v);
                         }),
                 {},
                 {}};
    const size_t count = cut.graph.nodes().size();
    cut.is_kept.resize(count);
    cut.part.resize(count);
    for (const auto& [of, kept] : kept_) cut.is_kept[static_cast<size_t>(kept)] = true;
    for (const auto& [v, part] : parts_made_) cut.part[static_cast<size_t>(v)] = part;
    return cut;
  }

 private:
  struct Reader {
    int part, stage;
    bool operator<(const Reader& other) const {
      return std::pair(part, stage) < std::pair(other.part, other.stage);
    }
  };

  bool is_free(Value v) const {  // a part of each kernel that reads it
    return products_.count(v) || belongs_to_readers(graph_, graph_[v]);
  }
  bool is_computed(Value v) const {
    return !graph_[v].is_parameter() && !steps_.has(v) && !is_free(v);
  }

  Value copy(GraphBuilder& b, Node node, Value v) {
    const bool is_computed_here = is_computed(v);
    if (is_computed_here)
      for (size_t i = 0; i < node.operands.size(); ++i)
        node.operands[i] = seen_from(b, graph_[v].operands[i],
                                     {part_[static_cast<size_t>(v)], late_.first_use(v)});
    const Value made = b.copy(node, node.operands);
    if (is_computed_here) parts_made_[made] = part_[static_cast<size_t>(v)];
    return made;
  }

  // A value as a kernel reads it.
  Value seen_from(GraphBuilder& b, Value v, const Reader& by) {
    if (graph_[v].is_parameter() || steps_.has(v)) return made_.at(v);
    if (!products_.count(v) && late_.reads(by.stage, v)) return kept(b, made_.at(v));
    if (!is_free(v))
      return part_[static_cast<size_t>(v)] == by.part ? made_.at(v) : kept(b, made_.at(v));
    const auto known = seen_.find({v, by});
    if (known != seen_.end()) return known->second;
    Node node = graph_[v];
    for (Value& operand : node.operands) operand = seen_from(b, operand, by);
    const Value made = b.copy(node, node.operands);
    b.add_locations(made, node.locations);
    return seen_[{v, by}] = made;
  }

  Value kept(GraphBuilder& b, Value of) {
    const auto known = kept_.find(of);
    if (known != kept_.end()) return known->second;
    Node node{Opcode::transpose, {of}, {}, b.type(of), {}};
    node.attributes.axes.resize(node.type.shape.size());
    std::iota(node.attributes.axes.begin(), node.attributes.axes.end(), 0);
    return kept_[of] = b.copy(node, {of});
  }

  const Graph& graph_;
  const StepNodes steps_;
  const LateReads late_;
  std::set<Value> products_;  // that additions take
  std::vector<int> part_;
  int longest_ = 0;  // chain
  std::map<Value, Value> made_, kept_;
  std::map<Value, int> parts_made_;  // of the new graph
  std::map<std::pair<Value, Reader>, Value> seen_;
};

}  // namespace

bool belongs_to_readers(const Graph& graph, const Node& node) {
  return node.op == Opcode::constant || node.op == Opcode::iota || node.op == Opcode::broadcast ||
         node.op == Opcode::transpose || node.op == Opcode::reshape || is_count(graph, node) ||
         is_number(node.type);
}

CutGraph cut_points(const Graph& graph, bool is_body, int longest) {
  return Cutter(graph, is_body, longest).run();
}

}  // namespace pto
