// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/move_pads_late.hpp"

#include <algorithm>
#include <map>

#include "pto/ir/infer.hpp"
#include "pto/ir/operations/operation.hpp"
#include "pto/ir/rebuild.hpp"
#include "pto/ir/uses.hpp"
#include "pto/passes/remove_dead_nodes.hpp"

namespace pto {
namespace {

// Values of the new graph, one behind another along an axis.
struct PadParts {
  size_t axis;
  std::vector<Value> values;
};

// Returns the offsets of a part, the operands from `first` on; none: they are not all known.
std::vector<int64_t> offsets_of(const GraphBuilder& b, const Node& node, size_t first) {
  std::vector<int64_t> found;
  for (size_t i = first; node.attributes.axes.empty() && i < node.operands.size(); ++i)
    if (const auto offset = whole_number(b.node(node.operands[i]))) found.push_back(*offset);
  return found.size() + first == node.operands.size() ? found : std::vector<int64_t>();
}

class Pads {
 public:
  explicit Pads(const Graph& graph) : graph_(graph), uses_(graph) {}

  Graph run() {
    return rebuild(graph_, graph_.outputs(), [&](GraphBuilder& b, const Node& old, Value v) {
      const Node node = with_bodies(old, move_pads_late);
      std::optional<PadParts> parts;
      if (node.op == Opcode::update)
        parts = border(b, node);
      else if (node.op == Opcode::view)
        parts = part_of(b, node, v);
      else if (operation(node.op).kernel == KernelForm::Element)
        parts = computed(b, node, v);
      if (!parts) return b.copy(node, node.operands);
      const Value joined = b.concat(parts->values, static_cast<int64_t>(parts->axis));
      parts_[joined] = std::move(*parts);
      return joined;
    });
  }

 private:
  // Returns the parts of a tensor of one number into which another one is written that fills all
  // axes but one, which is not the last.
  static std::optional<PadParts> border(GraphBuilder& b, const Node& node) {
    const Node around = b.node(node.operands[0]);
    const std::vector<int64_t> offsets = offsets_of(b, node, 2);
    const Value inner = node.operands[1];
    const Dims &whole = node.type.shape, part = b.type(inner).shape;
    if (around.op != Opcode::broadcast || !b.type(around.operands[0]).shape.empty()) return {};
    std::optional<size_t> found;
    for (size_t axis = 0; axis < offsets.size(); ++axis) {
      if (offsets[axis] == 0 && part[axis] == whole[axis]) continue;
      if (found) return {};
      found = axis;
    }
    if (!found || !has_long_rows(node.type, *found)) return {};
    const Dim behind = whole[*found] - part[*found] - offsets[*found];
    if (!behind.is_constant() || behind.value() < 0 || offsets[*found] < 0) return {};
    PadParts made{*found, {}};
    const auto fill = [&](const Dim& size) {
      Dims shape = whole;
      shape[*found] = size;
      if (size != Dim(0)) made.values.push_back(b.broadcast(around.operands[0], shape));
    };
    fill(offsets[*found]);
    made.values.push_back(inner);
    fill(behind);
    return made;
  }
  // Says whether a part along an axis has rows that kernels and copies take by whole vectors.
  static bool has_long_rows(const Type& type, size_t axis) {
    constexpr int64_t kLeastBytes = 64;
    Dim row = 1;
    for (size_t i = axis + 1; i < type.shape.size(); ++i) row = row * type.shape[i];
    return !row.is_constant() || row.value() * bytes(type.dtype) >= kLeastBytes;
  }

  // The parts of a value that nobody else reads.
  const PadParts* parts_of(Value old, Value now) const {
    const auto found = parts_.find(now);
    return found != parts_.end() && uses_.is_read_once(old) ? &found->second : nullptr;
  }

  // Returns the parts of a view that ends a known number of elements before the parts do.
  std::optional<PadParts> part_of(GraphBuilder& b, const Node& node, Value v) const {
    const PadParts* const from = parts_of(graph_[v].operands[0], node.operands[0]);
    const std::vector<int64_t> offsets = offsets_of(b, node, 1);
    if (!from || offsets.empty()) return {};
    const Dims whole = b.type(node.operands[0]).shape;
    const size_t axis = from->axis;
    for (size_t i = 0; i < offsets.size(); ++i)
      if (i != axis && (offsets[i] != 0 || whole[i] != node.type.shape[i])) return {};
    const Dim rest = whole[axis] - node.type.shape[axis] - offsets[axis];
    if (!rest.is_constant() || rest.value() < 0 || offsets[axis] < 0) return {};
    PadParts made = *from;
    const bool is_cut = cut(b, made, offsets[axis], true) && cut(b, made, rest.value(), false);
    return is_cut ? std::optional(made) : std::nullopt;
  }
  // Cuts elements off at one end, where it is known in which part that end is.
  static bool cut(GraphBuilder& b, PadParts& parts, int64_t count, bool in_front) {
    while (count > 0) {
      const auto at = in_front ? parts.values.begin() : parts.values.end() - 1;
      Dims shape = b.type(*at).shape;
      Dim& size = shape[parts.axis];
      if (!size.is_constant()) return false;
      if (size.value() <= count) {
        count -= size.value();
        parts.values.erase(at);
        if (parts.values.empty()) return false;
        continue;
      }
      size = size - Dim(count);
      *at = piece(b, *at, parts.axis, b.constant(in_front ? count : 0, DType::I64), shape);
      count = 0;
    }
    return true;
  }

  // Returns the parts of what is computed of parts and of values that lie in memory, or repeat.
  std::optional<PadParts> computed(GraphBuilder& b, const Node& node, Value v) const {
    const PadParts* as = nullptr;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const PadParts* const next = parts_of(graph_[v].operands[k], node.operands[k]);
      if (next && as && !are_alike(b, *as, *next)) return {};
      if (next) as = next;
    }
    for (size_t k = 0; as && k < node.operands.size(); ++k)
      if (!parts_of(graph_[v].operands[k], node.operands[k]) &&
          !has_pieces(b, node.operands[k], as->axis, node.type.shape))
        return {};
    if (!as) return {};
    PadParts made{as->axis, {}};
    Value start = b.constant(int64_t(0), DType::I64);
    for (size_t i = 0; i < as->values.size(); ++i) {
      const Dims shape = b.type(as->values[i]).shape;
      Node one = node;
      one.type.shape = shape;
      for (Value& operand : one.operands) {
        const auto known = parts_.find(operand);
        operand = known != parts_.end() ? known->second.values[i]
                                        : piece(b, operand, as->axis, start, shape);
      }
      made.values.push_back(b.copy(one, one.operands));
      const Dim& size = shape[as->axis];
      start = b.binary(Opcode::add, start,
                       size.is_constant() ? b.constant(size.value(), DType::I64) : b.extent(size));
    }
    return made;
  }
  static bool are_alike(const GraphBuilder& b, const PadParts& a, const PadParts& other) {
    return a.axis == other.axis &&
           std::equal(a.values.begin(), a.values.end(), other.values.begin(), other.values.end(),
                      [&](Value x, Value y) { return b.type(x).shape == b.type(y).shape; });
  }
  // Says whether pieces of a value of this shape are no copies: it lies in memory, or repeats.
  static bool has_pieces(const GraphBuilder& b, Value v, size_t axis, const Dims& shape) {
    const Node& node = b.node(v);
    if (node.type.shape != shape) return false;
    if (node.op != Opcode::broadcast) return is_there(b, v);
    const Dims& from = b.type(node.operands[0]).shape;
    const size_t ahead = shape.size() - from.size();
    return axis < ahead || is_one(from[axis - ahead]) || is_there(b, node.operands[0]);
  }
  static bool is_there(const GraphBuilder& b, Value v) {
    const Node& node = b.node(v);
    return node.op == Opcode::input || (node.op == Opcode::view && is_there(b, node.operands[0]));
  }

  // Returns the piece of a value along an axis that has this shape.
  static Value piece(GraphBuilder& b, Value v, size_t axis, Value start, const Dims& shape) {
    const Node node = b.node(v);
    if (node.op == Opcode::broadcast) {
      const Dims from = b.type(node.operands[0]).shape;
      const size_t ahead = shape.size() - from.size();
      if (axis < ahead || is_one(from[axis - ahead])) return b.broadcast(node.operands[0], shape);
      Dims narrow = from;
      narrow[axis - ahead] = shape[axis];
      return b.broadcast(piece(b, node.operands[0], axis - ahead, start, narrow), shape);
    }
    std::vector<Value> offsets(shape.size(), b.constant(int64_t(0), DType::I64));
    offsets[axis] = start;
    return b.view(v, offsets, shape);
  }

  const Graph& graph_;
  const Uses uses_;
  std::map<Value, PadParts> parts_;
};

}  // namespace

Graph move_pads_late(const Graph& graph) { return remove_dead_nodes(Pads(graph).run()); }

}  // namespace pto
