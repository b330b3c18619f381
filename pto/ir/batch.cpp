// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/batch.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "pto/ir/operations/operation.hpp"

namespace pto {
namespace {

// Relates a value of `many` to one of `one`.
enum class Relation {
  Different,
  Equal,  // the same value for all rows
  Mapped  // a row for each element of the batch
};

class Matcher {
 public:
  Matcher(const Graph& many, const Graph& one, const std::vector<bool>& has_batch, const Dim& batch)
      : many_(many), one_(one), batch_(batch) {
    for (const Guard& guard : one.guards()) {
      const std::string a = size(guard.a), b = size(guard.b);
      if (a != b) same_[a] = b;
    }
    for (size_t i = 0; i < has_batch.size(); ++i) {
      const Relation expected = has_batch[i] ? Relation::Mapped : Relation::Equal;
      const bool fits = shapes(many.inputs()[i], one.inputs()[i]) == expected;
      known_[{many.inputs()[i], one.inputs()[i]}] = fits ? expected : Relation::Different;
    }
  }

  Relation match(Value m, Value o) {
    if (const auto found = known_.find({m, o}); found != known_.end()) return found->second;
    Relation relation = match_operation(m, o);
    if (relation == Relation::Different && (is_repeated(m, o) || is_mapped_but_for_ones(m, o))) {
      relation = Relation::Mapped;
    }
    return known_[{m, o}] = relation;
  }

 private:
  // Prints a size; sizes that the guards make equal print as one.
  std::string size(const Dim& dim) const {
    std::string found = text(dim);
    for (auto next = same_.find(found); next != same_.end(); next = same_.find(found)) {
      found = next->second;
    }
    return found;
  }

  using Sizes = std::vector<std::string>;

  // Returns the shape of a value from axis `first` on, without the axes of size 1 in front.
  Sizes behind_ones(const Graph& graph, Value v, size_t first) const {
    const Dims& shape = graph[v].type.shape;
    while (first < shape.size() && shape[first] == Dim(1)) ++first;
    Sizes sizes;
    for (size_t axis = first; axis < shape.size(); ++axis) sizes.push_back(size(shape[axis]));
    return sizes;
  }

  bool has_batch(Value m) const {
    const Dims& shape = many_[m].type.shape;
    return !shape.empty() && shape[0] == batch_;
  }

  // Compares by the types alone.
  Relation shapes(Value m, Value o) const {
    if (many_[m].type.dtype != one_[o].type.dtype) return Relation::Different;
    if (has_batch(m)) {
      const bool fits = behind_ones(many_, m, 1) == behind_ones(one_, o, 0);
      return fits ? Relation::Mapped : Relation::Different;
    }
    const bool equal = many_[m].type.shape.size() == one_[o].type.shape.size() &&
                       behind_ones(many_, m, 0) == behind_ones(one_, o, 0);
    return equal ? Relation::Equal : Relation::Different;
  }

  // Skips reshapes and broadcasts that only add or remove axes of size 1 in front; `first` is 1
  // where the batch stands before them.
  Value without_ones(const Graph& graph, Value v, size_t first) const {
    while (graph[v].op == Opcode::reshape || graph[v].op == Opcode::broadcast) {
      const Value from = graph[v].operands[0];
      if (first == 1 && !(has_batch(v) && has_batch(from))) break;
      if (behind_ones(graph, from, first) != behind_ones(graph, v, first)) break;
      v = from;
    }
    return v;
  }

  // True for a value that is the same for all rows, broadcast over them.
  bool is_repeated(Value m, Value o) {
    return many_[m].op == Opcode::broadcast && shapes(m, o) == Relation::Mapped &&
           match(many_[m].operands[0], o) == Relation::Equal;
  }

  // True for a mapped value, when operations that only move axes of size 1 are passed over.
  bool is_mapped_but_for_ones(Value m, Value o) {
    const Value inner_m = without_ones(many_, m, 1), inner_o = without_ones(one_, o, 0);
    return (inner_m != m || inner_o != o) && shapes(m, o) == Relation::Mapped &&
           match(inner_m, inner_o) == Relation::Mapped;
  }

  Relation match_operation(Value m, Value o) {
    const Node &many = many_[m], &one = one_[o];
    const Relation shape = shapes(m, o);
    if (many.op != one.op || many.operands.size() != one.operands.size()) {
      return Relation::Different;
    }
    bool all_mapped = true, all_equal = true;
    for (size_t i = 0; i < many.operands.size(); ++i) {
      const Relation operand = match(many.operands[i], one.operands[i]);
      if (operand == Relation::Different) return Relation::Different;
      all_mapped &= operand == Relation::Mapped;
      all_equal &= operand == Relation::Equal;
    }
    if (all_equal && many.attributes == one.attributes && shape == Relation::Equal) return shape;
    if (shape != Relation::Mapped) return Relation::Different;
    return keeps_rows_apart(many, one, all_mapped, all_equal) ? shape : Relation::Different;
  }

  // True when an operation with rows in its result makes each from the same row of its operands.
  // Axes agree when counted from the last one.
  bool keeps_rows_apart(const Node& many, const Node& one, bool all_mapped, bool all_equal) const {
    const auto keeps = operation(many.op).keeps_rows_apart;
    return keeps != nullptr && keeps({many_, one_, many, one, all_mapped, all_equal});
  }

  const Graph &many_, &one_;
  const Dim batch_;
  std::map<std::string, std::string> same_;  // a size to one that a guard makes equal to it
  std::map<std::pair<Value, Value>, Relation> known_;
};

// Lists the guards without their reasons and order.
std::set<std::pair<std::string, std::string>> conditions(const Graph& graph) {
  std::set<std::pair<std::string, std::string>> all;
  for (const Guard& guard : graph.guards()) all.insert(std::minmax(text(guard.a), text(guard.b)));
  return all;
}

}  // namespace

std::optional<std::vector<bool>> map_batch(const Graph& many, const Graph& one,
                                           const std::vector<bool>& has_batch, const Dim& batch) {
  if (many.inputs().size() != has_batch.size() || one.inputs().size() != has_batch.size() ||
      many.outputs().size() != one.outputs().size() || conditions(many) != conditions(one)) {
    return std::nullopt;
  }
  Matcher matcher(many, one, has_batch, batch);
  std::vector<bool> mapped;
  for (size_t i = 0; i < many.outputs().size(); ++i) {
    const Relation relation = matcher.match(many.outputs()[i], one.outputs()[i]);
    if (relation == Relation::Different) return std::nullopt;
    mapped.push_back(relation == Relation::Mapped);
  }
  return mapped;
}

}  // namespace pto
