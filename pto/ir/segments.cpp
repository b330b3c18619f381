// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/segments.hpp"
#include "pto/ir/infer.hpp"

#include <algorithm>
#include <optional>

#include "pto/ir/made.hpp"

namespace pto {
namespace {

struct Ref {
  const Scope* scope;
  Value v;
  const Node& node() const { return (*scope->graph)[v]; }
  Ref operand(size_t i) const { return {scope, node().operands[i]}; }
  friend bool operator==(const Ref&, const Ref&) = default;
};

// Returns the operand that an input of a body stands for in each iteration, or -1.
Value operand_of_input(const Scope& scope, size_t input) {
  const Node& node = (*scope.outer->graph)[scope.node];
  const bool is_loop = node.op == Opcode::loop || node.op == Opcode::repeat;
  const size_t at = input + operands_ahead(node);
  const size_t carried = is_loop ? node.attributes.bodies.back()->outputs().size() : 0;
  const bool changes = is_loop && at < first_carried(node) + carried;  // the index, too
  return changes ? -1 : node.operands[at];
}

// Follows a value to the place where it is computed.
Ref origin(Ref ref) {
  while (ref.scope->outer != nullptr && ref.node().is_parameter()) {
    const auto& inputs = ref.scope->graph->inputs();
    const auto at = std::find(inputs.begin(), inputs.end(), ref.v) - inputs.begin();
    const Value operand = operand_of_input(*ref.scope, static_cast<size_t>(at));
    if (operand < 0) break;
    ref = {ref.scope->outer, operand};
  }
  return ref;
}
// The same behind other shapes of the same elements.
Ref elements(Ref ref) {
  for (ref = origin(ref); ref.node().op == Opcode::reshape; ref = origin(ref.operand(0))) {
  }
  return ref;
}

// Says whether all elements count conditions: none is negative, and no sum of them wraps.
bool is_natural(Ref ref) {
  ref = origin(ref);
  const Node& node = ref.node();
  switch (node.op) {
    case Opcode::cast:
      return ref.operand(0).node().type.dtype == DType::Bool;
    case Opcode::reshape:
    case Opcode::broadcast:
    case Opcode::sum:
      return is_natural(ref.operand(0));
    case Opcode::result: {
      const Ref of = ref.operand(0);
      if (of.node().op != Opcode::fused) return false;
      const Scope body = {&of.node().body(), of.scope, of.v};
      return is_natural({&body, body.graph->outputs()[size_t(node.attributes.index)]});
    }
    default:
      return false;
  }
}

// Says whether all elements differ: the positions of the elements of one sorted row.
bool is_permutation(Ref ref) {
  ref = elements(ref);
  if (ref.node().op != Opcode::result || ref.node().attributes.index != 1) return false;
  const Node& sorted = ref.operand(0).node();
  const Dims& shape = sorted.type.shape;
  return (sorted.op == Opcode::sort || sorted.op == Opcode::sort_descending) && !shape.empty() &&
         std::all_of(shape.begin(), shape.end() - 1, [](const Dim& dim) { return dim == Dim(1); });
}

// Says whether a value is the same in all iterations: it comes from outside of the loop.
bool is_common(Ref ref, const Scope& loop) {
  for (const Scope* at = loop.outer; at != nullptr; at = at->outer)
    if (at == ref.scope) return true;
  return false;
}

// Returns the table, of all iterations, of which a number is the element at the index of the loop.
std::optional<Ref> table_of(Ref number, const Scope& loop) {
  const Ref part = elements(number);
  if (part.node().op != Opcode::view || part.node().type.shape != Dims{Dim(1)}) return std::nullopt;
  const Ref index = {&loop, loop.graph->inputs()[0]}, table = origin(part.operand(0));
  const bool is_element = origin(part.operand(1)) == index && is_common(table, loop);
  return is_element ? std::optional(table) : std::nullopt;
}

// Returns the number that a size was taken from.
std::optional<Ref> number_of(const Dim& size, const Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->outer)
    for (Value v = 0; v < static_cast<Value>(at->graph->nodes().size()); ++v)
      if (const Ref ref = {at, v};
          ref.node().op == Opcode::size && ref.node().attributes.size == size)
        return ref.operand(0);
  return std::nullopt;
}

// Says whether `size` elements from `first` on are a segment: counts[e] of them, which end at the
// sum of the counts up to e.
bool is_segment(Ref first, const Dim& size, const Scope& loop) {
  const Scope& scope = *first.scope;
  first = origin(first);
  if (first.node().op != Opcode::sub || !size.is_symbol()) return false;
  const std::optional<Ref> ends = table_of(first.operand(0), loop),
                           counts = table_of(first.operand(1), loop),
                           number = number_of(size, scope);
  if (!ends || !counts || !number || table_of(*number, loop) != counts) return false;
  return ends->node().op == Opcode::cumsum && origin(ends->operand(0)) == *counts &&
         is_natural(*counts);
}

}  // namespace

bool writes_own_segment(const Scope& scope, Value node, const Scope& loop) {
  const Ref ref = {&scope, node};
  if (ref.node().op == Opcode::update) {
    const Dims part = span_of(ref.operand(1).node().type.shape, ref.node().attributes.axes);
    for (size_t axis = 0; axis < part.size(); ++axis)
      if (is_segment(ref.operand(2 + axis), part[axis], loop)) return true;
    return false;
  }
  if (ref.node().attributes.axes.size() != 1) return false;
  const Ref places = elements(ref.operand(1));
  const Node& view = places.node();
  return view.op == Opcode::view && view.type.shape.size() == 1 && view.attributes.axes.empty() &&
         is_permutation(places.operand(0)) && is_common(origin(places.operand(0)), loop) &&
         is_segment(places.operand(1), view.type.shape[0], loop);
}

}  // namespace pto
