// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/parallel_loop.hpp"
#include "pto/ir/infer.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "pto/ir/made.hpp"
#include "pto/ir/segments.hpp"

namespace pto {
namespace {

// A number as `factor` times the index of the loop, and something that the loop does not change.
// Factor 0: the loop does not change it. Nothing: it changes in another way.
using Factor = std::optional<Dim>;

// An offset along an axis, as a value of the outermost body: parts there of different iterations do
// not meet.
using Place = std::pair<size_t, Value>;

// The places that all parts have which an iteration writes or reads of a tensor that it writes.
struct OwnPart {
  bool is_read = false;
  std::optional<std::set<Place>> places;  // nothing: there was no part yet

  void meet(const std::set<Place>& others) {
    if (!places)
      places = others;
    else
      std::erase_if(*places, [&](const Place& one) { return others.count(one) == 0; });
  }
};

// The parts that one iteration writes, in the body of the loop and those within.
class Writes {
 public:
  // `scope`: that of the body; `loop`: that of the loop's. `origins`: the values of the outermost
  // body that values of this one are.
  Writes(const Scope& scope, const Scope& loop, std::map<Value, Factor> factors,
         std::map<Value, Value> origins, LoopRange range, OwnPart* own, LoopObstacle* obstacle)
      : scope_(scope),
        loop_(loop),
        body_(*scope.graph),
        factors_(std::move(factors)),
        origins_(std::move(origins)),
        range_(std::move(range)),
        own_(own),
        obstacle_(obstacle) {}

  // True where `last` is the tensor `first` with parts that other iterations do not write.
  bool are_apart(Value last, Value first) {
    const std::string name = "'" + body_[first].attributes.name + "'";
    Value next = -1;  // what goes on from v
    for (Value v = last; v != first;) {
      const Node& node = body_[v];
      const Made made = made_by(body_, v);
      const int start = made.node < 0 ? -1 : start_of(body_, made);
      if (start < 0)
        return refuse(name + " is computed from the iteration before", node, range_.step != 0);
      if (!reads_own_parts(v, next)) return refuse_reads(v, first);
      if (node.op == Opcode::update) {
        next = v;
        own_->meet(places_of(node, 2, body_[node.operands[1]].type.shape));
        if (const std::string why = meets(node);
            !why.empty() && !writes_own_segment(scope_, v, loop_))
          return refuse("iterations may write the same part of " + name + ": " + why, node,
                        meets_itself(node));
        v = node.operands[0];
      } else if (node.op == Opcode::scatter || node.op == Opcode::scatter_add) {
        next = v;
        own_->meet({});
        if (!writes_own_segment(scope_, v, loop_))
          return refuse("iterations may write the same part of " + name +
                            ": where they write comes from data, not from segments of an order",
                        node);
        v = node.operands[0];
      } else {
        if (!are_apart_inside(made.node, made.index, start)) return false;
        next = made.node;
        v = body_[made.node].operands[static_cast<size_t>(start)];
      }
    }
    return reads_own_parts(first, next) || refuse_reads(last, first);
  }

  // Refuses as the body reads `first` where other iterations may write; `at` has the line.
  bool refuse_reads(Value at, Value first) const {
    return refuse("the body reads '" + body_[first].attributes.name + "', into which it writes",
                  body_[at]);
  }

 private:
  bool refuse(const std::string& why, const Node& node, bool is_certain = false) const {
    if (obstacle_ != nullptr)
      *obstacle_ = {why, node.locations.empty() ? Location{} : node.locations[0], is_certain};
    return false;
  }

  // True where the parts of two iterations that follow each other overlap along each axis.
  bool meets_itself(const Node& update) {
    if (!update.attributes.axes.empty()) return false;  // they may lie in each other's gaps
    const Dims& part = body_[update.operands[1]].type.shape;
    for (size_t axis = 0; axis < part.size(); ++axis) {
      const Factor steps = factor(update.operands[2 + axis]);
      if (!steps || !steps->is_constant() || range_.step == 0) return false;
      const int64_t way = std::abs(steps->value() * range_.step);
      if (way != 0 && (!part[axis].is_constant() || part[axis].value() <= way)) return false;
    }
    return true;
  }

  // Notes the parts of a version that the body reads. False where it reads more than parts, or when
  // `next` has written: to keep the version, all of it would be copied.
  bool reads_own_parts(Value v, Value next) {
    int uses = static_cast<int>(std::count(body_.outputs().begin(), body_.outputs().end(), v));
    for (Value user = 0; user < static_cast<Value>(body_.nodes().size()); ++user) {
      const Node& node = body_[user];
      if (node.op == Opcode::result) continue;
      const auto reads = std::count(node.operands.begin(), node.operands.end(), v);
      const bool is_part = node.op == Opcode::view && reads == 1 && node.operands[0] == v;
      if (!is_part || (next >= 0 && user > next)) {
        uses += static_cast<int>(reads);
        continue;
      }
      own_->is_read = true;
      own_->meet(places_of(node, 1, node.type.shape));
    }
    return uses <= 1;
  }

  // The axes along which a part does not meet those of other iterations, with its offsets there.
  std::set<Place> places_of(const Node& node, size_t first_offset, const Dims& shape) {
    const Dims part = span_of(shape, node.attributes.axes);
    std::set<Place> places;
    for (size_t axis = 0; axis < part.size(); ++axis) {
      const Value offset = node.operands[first_offset + axis];
      const auto origin = origins_.find(offset);
      if (moves_by(offset, part[axis]) && origin != origins_.end())
        places.emplace(axis, origin->second);
    }
    return places;
  }

  // True where an offset moves with the index by at least the size of a part.
  bool moves_by(Value offset, const Dim& part) {
    const Factor steps = factor(offset);
    return steps && !(*steps == Dim(0)) && is_at_most(part, *steps);
  }

  // Says the same of what the bodies of a node do to the operand `start`, from which a result goes
  // on.
  bool are_apart_inside(Value v, int result, int start) {
    const Node& node = body_[v];
    const size_t ahead = operands_ahead(node);
    const auto first = static_cast<size_t>(start) - ahead;
    const size_t carried =
        node.op == Opcode::branch ? 0 : node.attributes.bodies.back()->outputs().size();
    LoopRange range = range_;
    range.step = 0;  // some iterations may not run this
    for (const auto& inner : node.attributes.bodies) {
      if (node.op == Opcode::repeat && inner == node.attributes.bodies.front()) continue;
      std::map<Value, Factor> factors;
      std::map<Value, Value> origins;
      for (size_t i = 0; i < inner->inputs().size(); ++i) {
        const bool is_index = node.op == Opcode::loop && i == 0;
        const bool changes = is_index || (i >= first_carried(node) - ahead &&
                                          i < first_carried(node) - ahead + carried);
        factors[inner->inputs()[i]] = changes ? Factor() : factor(node.operands[i + ahead]);
        const auto origin = changes ? origins_.end() : origins_.find(node.operands[i + ahead]);
        if (origin != origins_.end()) origins[inner->inputs()[i]] = origin->second;
      }
      const Value last = inner->outputs()[static_cast<size_t>(result)];
      const Scope scope = {inner.get(), &scope_, v};
      if (!Writes(scope, loop_, factors, origins, range, own_, obstacle_)
               .are_apart(last, inner->inputs()[first]))
        return false;
    }
    return true;
  }

  // Says why the parts that iterations write may meet; empty: they do not.
  std::string meets(const Node& update) {
    const Dims part = span_of(body_[update.operands[1]].type.shape, update.attributes.axes);
    std::set<Value> quotients, remainders;  // by what the index is divided
    for (size_t axis = 0; axis < part.size(); ++axis) {
      const Value offset = update.operands[2 + axis];
      if (moves_by(offset, part[axis])) return {};
      if (const auto by = digit(Opcode::div, offset, part[axis])) quotients.insert(*by);
      if (const auto by = digit(Opcode::remainder, offset, part[axis])) remainders.insert(*by);
    }
    // Two indices differ in their quotient or in their remainder.
    std::erase_if(quotients, [&](Value by) { return remainders.count(by) == 0; });
    if (std::any_of(quotients.begin(), quotients.end(),
                    [&](Value by) { return divides(*size_of(by)); }))
      return {};
    return quotients.empty()
               ? "no offset moves with the index by at least the size of the part"
               : "the size that divides the index may be 0; divide by max(size, 1), or loop over a "
                 "multiple of it";
  }

  // The divisor where an offset is at least `part` times the quotient, or remainder, of the index
  // by a size.
  std::optional<Value> digit(Opcode op, Value offset, const Dim& part) const {
    const Node& product = body_[offset];
    if (product.op != Opcode::mul) return digit(op, offset, part, Dim(1));
    for (const size_t i : {0, 1})
      if (const auto width = size_of(product.operands[1 - i]))
        if (const auto by = digit(op, product.operands[i], part, *width)) return by;
    return std::nullopt;
  }
  std::optional<Value> digit(Opcode op, Value v, const Dim& part, const Dim& width) const {
    const Node& node = body_[not_rounded_down(v)];
    if (node.op != op || !range_.counts_up) return std::nullopt;
    const std::optional<Dim> by = size_of(node.operands[1]);
    const bool is_digit = by && is_index(dividend(node)) && is_at_most(part, width);
    return is_digit ? std::optional(node.operands[1]) : std::nullopt;
  }
  // True of a size that is not 0 where the loop has iterations: the quotient by 0 is 0.
  bool divides(const Dim& size) const {
    return is_at_least_one(size) || (range_.end && is_multiple(*range_.end, size));
  }
  static bool is_multiple(const Dim& of, const Dim& size) {
    return of == size || (of.op() == DimOp::Mul &&
                          (is_multiple(of.left(), size) || is_multiple(of.right(), size)));
  }

  bool is_index(Value v) const {
    const auto index = factors_.find(v);
    return index != factors_.end() && index->second == Factor(Dim(1)) && body_[v].is_parameter();
  }

  // A quotient of the language subtracts the remainder first, and 1 where it rounds down: the
  // quotient before that, where this does not happen, and what is divided.
  Value not_rounded_down(Value v) const {
    const Node& node = body_[v];
    return node.op == Opcode::where && is_false(node.operands[0]) ? node.operands[2] : v;
  }
  Value dividend(const Node& quotient) const {
    const Node& less = body_[quotient.operands[0]];
    if (quotient.op != Opcode::div || less.op != Opcode::sub) return quotient.operands[0];
    const std::vector<Value> of = {less.operands[0], quotient.operands[1]};
    const Node& rest = body_[less.operands[1]];
    return rest.op == Opcode::fmod && rest.operands == of ? of[0] : quotient.operands[0];
  }
  bool is_false(Value v) const {
    const Node& node = body_[v];
    const auto of = [&](size_t i) { return is_false(node.operands[i]); };
    if (node.op == Opcode::logical_and) return of(0) || of(1);
    if (node.op == Opcode::logical_or) return of(0) && of(1);
    return node.op == Opcode::lt && size_of(node.operands[1]) == Dim(0) &&
           is_natural(node.operands[0]);
  }
  // True of numbers that are known not to be negative.
  bool is_natural(Value v) const {
    const Node& node = body_[v];
    if (node.op == Opcode::fmod) return is_natural(node.operands[0]);
    return node.op == Opcode::extent || (range_.counts_up && is_index(v));
  }

  Factor factor(Value v) {
    if (const auto known = factors_.find(v); known != factors_.end()) return known->second;
    const Node& node = body_[v];
    const auto of = [&](size_t i) { return factor(node.operands[i]); };
    Factor found;
    if (node.op == Opcode::constant || node.op == Opcode::extent) {
      found = Dim(0);
    } else if (node.op == Opcode::add || node.op == Opcode::sub) {
      const Factor a = of(0), b = of(1);
      if (a && b) found = node.op == Opcode::add ? *a + *b : *a - *b;
    } else if (node.op == Opcode::mul) {
      const std::optional<Dim> x = size_of(node.operands[0]), y = size_of(node.operands[1]);
      const Factor a = of(0), b = of(1);
      if (a && y) found = *a * *y;
      if (b && x && !found) found = *b * *x;
    } else if (!node.operands.empty()) {  // from what does not change, a thing that does not
      const bool is_fixed = std::all_of(node.operands.begin(), node.operands.end(), [&](Value o) {
        const Factor one = factor(o);
        return one && *one == Dim(0);
      });
      if (is_fixed) found = Dim(0);
    }
    return factors_[v] = found;
  }

  // The size that a number is, where the graph says so.
  std::optional<Dim> size_of(Value v) const {
    const Node& node = body_[v];
    if (node.op == Opcode::extent) return node.attributes.size;
    const std::optional<int64_t> number = whole_number(node);
    return number ? std::optional(Dim(*number)) : std::nullopt;
  }

  bool is_at_most(const Dim& size, const Dim& limit) const {
    if (size == limit) return true;
    if (size.is_constant() && limit.is_constant()) return size.value() <= limit.value();
    if (size.is_constant() && size.value() == 1) return is_at_least_one(limit);
    if (size.op() == DimOp::Min)
      return is_at_most(size.left(), limit) || is_at_most(size.right(), limit);
    if (!size.is_symbol()) return false;
    for (const Node& node : body_.nodes())
      if (node.op == Opcode::size && node.attributes.size == size)
        return number_is_at_most(node.operands[0], limit);
    return false;
  }
  static bool is_at_least_one(const Dim& size) {
    if (size.op() == DimOp::Max)
      return is_at_least_one(size.left()) || is_at_least_one(size.right());
    return size.is_constant() && size.value() >= 1;
  }

  bool number_is_at_most(Value v, const Dim& limit) const {
    const Node& node = body_[v];
    if (const auto size = size_of(v)) return is_at_most(*size, limit);
    return node.op == Opcode::minimum && (number_is_at_most(node.operands[0], limit) ||
                                          number_is_at_most(node.operands[1], limit));
  }

  const Scope& scope_;
  const Scope& loop_;
  const Graph& body_;
  std::map<Value, Factor> factors_;
  const std::map<Value, Value> origins_;
  const LoopRange range_;
  OwnPart* const own_;
  LoopObstacle* const obstacle_;
};

bool iterations_write_apart(const Scope& loop, const LoopRange& range, LoopObstacle* obstacle) {
  const Graph& body = *loop.graph;
  const size_t count = body.outputs().size();
  std::map<Value, Factor> factors;
  std::map<Value, Value> origins;
  for (Value v = 0; v < static_cast<Value>(body.nodes().size()); ++v) origins[v] = v;
  for (size_t i = 0; i < body.inputs().size(); ++i)
    factors[body.inputs()[i]] = i == 0 ? Factor(Dim(1)) : i <= count ? Factor() : Factor(Dim(0));
  for (size_t k = 0; k < count; ++k) {
    const Value last = body.outputs()[k], first = body.inputs()[1 + k];
    OwnPart own;
    Writes writes(loop, loop, factors, origins, range, &own, obstacle);
    if (last != first && writes.are_apart(last, first) &&
        (!own.is_read || !own.places->empty() || writes.refuse_reads(last, first)))
      continue;
    if (last == first && obstacle != nullptr)
      *obstacle = {"it carries '" + body[first].attributes.name + "' and leaves it as it is", {}};
    return false;
  }
  return true;
}

LoopRange range_of(const Graph& graph, const Node& loop) {
  const auto number = [&](size_t i) { return whole_number(graph[loop.operands[i]]).value_or(-1); };
  const Node& end = graph[loop.operands[1]];
  LoopRange range = {number(2), number(0) >= 0, std::nullopt};
  if (end.op == Opcode::extent) range.end = end.attributes.size;
  return range;
}

}  // namespace

bool writes_apart(const Graph& graph, Value v, LoopObstacle* obstacle) {
  const Node& loop = graph[v];
  const LoopRange range = range_of(graph, loop);
  if (range.step < 1 && obstacle != nullptr)
    *obstacle = {"its step is not a positive constant",
                 loop.locations.empty() ? Location{} : loop.locations[0]};
  const Scope outer = {&graph};
  return range.step >= 1 && iterations_write_apart({&loop.body(), &outer, v}, range, obstacle);
}

bool writes_segments(const Graph& graph, Value v) {
  const Node& loop = graph[v];  // whose body alone does not show what is counted
  return writes_apart(graph, v) && !body_writes_apart(loop.body(), range_of(graph, loop), nullptr);
}

bool body_writes_apart(const Graph& body, const LoopRange& range, LoopObstacle* obstacle) {
  return iterations_write_apart({&body}, range, obstacle);
}

}  // namespace pto
