// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/batch.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace pto {
namespace {

// How a value of `many` stands to one of `one`.
enum class Relation {
  Different,
  Equal,  // the same value for all rows
  Mapped  // a row for each element of the batch
};

class Matcher {
 public:
  Matcher(const Graph& many, const Graph& one, const std::vector<bool>& has_batch, const Dim& batch)
      : many_(many), one_(one), batch_(batch) {
    for (size_t i = 0; i < has_batch.size(); ++i) {
      const Relation expected = has_batch[i] ? Relation::Mapped : Relation::Equal;
      const bool fits = shapes(many.inputs()[i], one.inputs()[i]) == expected;
      known_[{many.inputs()[i], one.inputs()[i]}] = fits ? expected : Relation::Different;
    }
  }

  Relation match(Value m, Value o) {
    if (const auto found = known_.find({m, o}); found != known_.end()) return found->second;
    Relation relation = match_operation(m, o);
    if (relation == Relation::Different && is_repeated(m, o)) relation = Relation::Mapped;
    return known_[{m, o}] = relation;
  }

 private:
  // By the types alone.
  Relation shapes(Value m, Value o) const {
    const Type &many = many_[m].type, &one = one_[o].type;
    if (many.dtype != one.dtype) return Relation::Different;
    if (many.shape == one.shape) return Relation::Equal;
    const bool mapped = many.shape.size() == one.shape.size() + 1 && many.shape[0] == batch_ &&
                        std::equal(one.shape.begin(), one.shape.end(), many.shape.begin() + 1);
    return mapped ? Relation::Mapped : Relation::Different;
  }

  // A value that is the same for all rows, broadcast over them.
  bool is_repeated(Value m, Value o) {
    return many_[m].op == Opcode::broadcast && shapes(m, o) == Relation::Mapped &&
           match(many_[m].operands[0], o) == Relation::Equal;
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

  // Whether an operation with rows in its result makes each from the same row of its operands.
  bool keeps_rows_apart(const Node& many, const Node& one, bool all_mapped, bool all_equal) const {
    switch (many.op) {
      case Opcode::broadcast:  // aligned at the last axis: the batch axes must meet
        return all_equal || one_[one.operands[0]].type.shape.size() == one.type.shape.size();
      case Opcode::reshape:
        return all_mapped;
      case Opcode::transpose:
        return all_mapped && many.attributes.axes == shifted(one.attributes.axes, true);
      case Opcode::matmul:
        return all_mapped && equal_ranks(one);
      default:
        if (info(many.op).family == Family::Reduce) {
          return all_mapped && many.attributes.axes == shifted(one.attributes.axes, false);
        }
        return is_elementwise(many.op) && all_mapped && many.attributes == one.attributes;
    }
  }

  static std::vector<int64_t> shifted(const std::vector<int64_t>& axes, bool permuted) {
    std::vector<int64_t> result;
    if (permuted) result.push_back(0);
    for (const int64_t axis : axes) result.push_back(axis + 1);
    return result;
  }

  bool equal_ranks(const Node& one) const {
    return one_[one.operands[0]].type.shape.size() == one_[one.operands[1]].type.shape.size();
  }

  const Graph &many_, &one_;
  const Dim batch_;
  std::map<std::pair<Value, Value>, Relation> known_;
};

}  // namespace

std::optional<std::vector<bool>> map_batch(const Graph& many, const Graph& one,
                                           const std::vector<bool>& has_batch, const Dim& batch) {
  if (many.inputs().size() != has_batch.size() || one.inputs().size() != has_batch.size() ||
      many.outputs().size() != one.outputs().size() || many.guards() != one.guards()) {
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
