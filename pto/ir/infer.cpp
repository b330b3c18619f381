// SPDX-License-Identifier: Apache-2.0
#include "pto/ir/infer.hpp"

#include <algorithm>
#include <cmath>

#include "pto/base/text.hpp"
#include "pto/ir/number.hpp"

namespace pto {
namespace {

constexpr uint32_t bit(DType dtype) { return 1u << static_cast<int>(dtype); }

// Returns the set of element types that `op` takes, a bit each.
uint32_t dtypes(Opcode op) {
  constexpr uint32_t kAny = (1u << kDTypes) - 1;
  constexpr uint32_t kBool = bit(DType::Bool);
  constexpr uint32_t kFloat =
      bit(DType::F16) | bit(DType::BF16) | bit(DType::F32) | bit(DType::F64);
  constexpr uint32_t kInteger = kAny & ~kFloat & ~kBool;
  constexpr uint32_t kArithmetic = kFloat | kInteger;
  constexpr uint32_t kOrdered = kArithmetic;
  switch (op) {
#define PTO_UNARY(mnemonic, op, value, numpy, dtypes) \
  case Opcode::op:                                    \
    return dtypes;
#define PTO_BINARY(mnemonic, op, value, numpy, dtypes) \
  case Opcode::op:                                     \
    return dtypes;
#define PTO_COMPARE(mode, op, value, numpy, dtypes) \
  case Opcode::op:                                  \
    return dtypes;
#define PTO_REDUCE(row, col, part, op, value, zero, numpy, dtypes) \
  case Opcode::op:                                                 \
    return dtypes;
#include "pto/isa/instructions.def"
    case Opcode::matmul:
      return kArithmetic;
    default:
      return kAny;
  }
}

std::string text_of(uint32_t set) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kDTypes; ++i)
    if (set >> i & 1) names.push_back(name(static_cast<DType>(i)));
  return joined(names, " ", [](std::string_view n) { return std::string(n); });
}

using Operands = std::vector<const Node*>;

const Type& type(const Operands& operands, size_t i) { return operands[i]->type; }

std::string label(Opcode op) { return std::string(info(op).name); }

void require_dtype(Opcode op, DType dtype) {
  if (accepts(op, dtype)) return;
  fail({label(op) + ": not defined on " + std::string(name(dtype)),
        label(op) + " takes " + text_of(dtypes(op)), "cast the operand first"},
       ErrorKind::Type);
}

void require_same_dtype(Opcode op, const Type& a, const Type& b) {
  if (a.dtype == b.dtype) return;
  fail({label(op) + ": left is " + std::string(name(a.dtype)) + " but right is " +
            std::string(name(b.dtype)),
        "both operands must have one dtype; nothing is cast silently", "cast one of the operands"},
       ErrorKind::Type);
}

void require_same_shape(Opcode op, const Type& a, const Type& b) {
  if (a.shape == b.shape) return;
  fail({label(op) + ": operands have shapes " + text(a.shape) + " and " + text(b.shape),
        "operands of an element-wise operation have equal shapes in a graph",
        "insert a broadcast to the common shape"});
}

void require_scalar(Opcode op, const Type& type, std::string_view role) {
  if (type.dtype == DType::I64 && type.shape.empty()) return;
  fail({label(op) + ": " + std::string(role) + " is " + text(type) + " instead of i64[]",
        "positions and bounds are 64-bit integers of rank 0", "cast to i64 and reshape to []"},
       ErrorKind::Type);
}

bool compatible(const Type& a, const Type& b) {
  return a.dtype == b.dtype &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(), may_equal);
}

Type infer_constant(const Node& node) {
  const auto& value = node.attributes.value;
  const DType dtype = node.type.dtype;
  const bool fits =
      is_float(dtype)
          ? value.index() == 0 && (std::isnan(std::get<0>(value)) ||
                                   round_to(dtype, std::get<0>(value)) == std::get<0>(value))
          : value.index() == 1 && wrap_to(dtype, std::get<1>(value)) == std::get<1>(value);
  if (fits && node.type.shape.empty()) return node.type;
  fail({"constant: the value " +
            (value.index() == 0 ? text(std::get<0>(value)) : text(std::get<1>(value))) +
            " is not a value of " + text(node.type),
        "a constant has rank 0 and a value that its dtype represents exactly",
        "round the value to the dtype"});
}

Type infer_broadcast(const Node& node, const Type& from) {
  const Dims& to = node.type.shape;
  bool fits = to.size() >= from.shape.size();
  for (size_t i = 0; fits && i < from.shape.size(); ++i) {
    const Dim& small = from.shape[from.shape.size() - 1 - i];
    fits = small == Dim(1) || may_equal(small, to[to.size() - 1 - i]);
  }
  if (fits) return {from.dtype, to};
  fail({"broadcast: shape " + text(from.shape) + " does not broadcast to " + text(to),
        "aligned at the last axis, sizes are equal or the source's is 1",
        "reshape the operand or change the target shape"});
}

Type infer_reshape(const Node& node, const Type& from) {
  const Dim before = product(from.shape), after = product(node.type.shape);
  if (may_equal(before, after)) return {from.dtype, node.type.shape};
  fail({"reshape: shape " + text(from.shape) + " has " + text(before) + " elements but " +
            text(node.type.shape) + " has " + text(after),
        "a reshape keeps the number of elements", "choose sizes with the same product"});
}

Type infer_transpose(const Node& node, const Type& from) {
  std::vector<int64_t> axes = node.attributes.axes;
  Type to{from.dtype, {}};
  for (const int64_t axis : axes)
    if (axis >= 0 && axis < static_cast<int64_t>(from.shape.size()))
      to.shape.push_back(from.shape[static_cast<size_t>(axis)]);
  std::sort(axes.begin(), axes.end());
  const bool distinct = std::adjacent_find(axes.begin(), axes.end()) == axes.end();
  if (distinct && axes.size() == from.shape.size() && to.shape.size() == axes.size()) return to;
  fail({"transpose: axes [" +
            joined(node.attributes.axes, ", ", [](int64_t a) { return text(a); }) + "] on shape " +
            text(from.shape),
        "axes are a permutation of 0 .. rank-1", "name every axis once"});
}

Type infer_view(const Node& node, const Operands& operands) {
  const Dims& from = type(operands, 0).shape;
  const Dims& to = node.type.shape;
  if (operands.size() != from.size() + 1 || to.size() != from.size())
    fail({"view: shape " + text(from) + ", view " + text(to) + ", " +
              std::to_string(operands.size() - 1) + " offsets",
          "a view has one offset and one size for each axis", "give an offset for every axis"});
  for (size_t i = 0; i < from.size(); ++i) {
    require_scalar(node.op, type(operands, i + 1), "an offset");
    if (from[i].is_constant() && to[i].is_constant() && to[i].value() > from[i].value())
      fail({"view: axis " + std::to_string(i) + " of shape " + text(from) + " cannot hold " +
                text(to),
            "a view lies inside its tensor", "make the view smaller"});
  }
  return {type(operands, 0).dtype, to};
}

Type infer_matmul(const Node& node, const Type& a, const Type& b) {
  require_same_dtype(node.op, a, b);
  require_dtype(node.op, a.dtype);
  const size_t m = a.shape.size(), n = b.shape.size();
  if (m < 2 || n < 2 || !may_equal(a.shape[m - 1], b.shape[n - 2]))
    fail({"matmul: left has shape " + text(a.shape) + " but right has shape " + text(b.shape),
          "[..., M, K] x [..., K, N]: the contraction sizes must match",
          "transpose or reshape an operand"});
  Dims out = broadcast_shape(Dims(a.shape.begin(), a.shape.end() - 2),
                             Dims(b.shape.begin(), b.shape.end() - 2), nullptr);
  out.push_back(a.shape[m - 2]);
  out.push_back(b.shape[n - 1]);
  return {a.dtype, out};
}

void require_body(const Node& node, const Operands& operands, size_t skipped) {
  if (node.attributes.body == nullptr || node.attributes.body->outputs().empty())
    fail({label(node.op) + ": has no body with outputs", "the body computes the results",
          "build the body first"});
  const Graph& body = *node.attributes.body;
  if (body.inputs().size() != operands.size() - skipped)
    fail({label(node.op) + ": the body takes " + std::to_string(body.inputs().size()) +
              " inputs but gets " + std::to_string(operands.size() - skipped),
          "every operand is one input of the body", "pass one operand for each input"});
  for (size_t i = skipped; i < operands.size(); ++i) {
    const Type& expected = body[body.inputs()[i - skipped]].type;
    if (!compatible(expected, type(operands, i)))
      fail({label(node.op) + ": operand " + std::to_string(i) + " is " + text(type(operands, i)) +
                " but the body expects " + text(expected),
            "operands have the types of the body's inputs", "cast or reshape the operand"},
           ErrorKind::Type);
  }
}

// The body takes neither start nor stop; the index stands at the place of step.
Type infer_loop(const Node& node, const Operands& operands) {
  if (operands.size() < 4)
    fail({"loop: has " + std::to_string(operands.size()) + " operands",
          "a loop takes start, stop, step and at least one carried value",
          "carry what the loop computes"});
  for (size_t i = 0; i < 3; ++i) require_scalar(node.op, type(operands, i), "a bound");
  require_body(node, operands, 2);
  const Graph& body = *node.attributes.body;
  bool fits = body.outputs().size() + 1 == body.inputs().size();
  for (size_t i = 0; fits && i < body.outputs().size(); ++i)
    fits = compatible(body[body.inputs()[i + 1]].type, body[body.outputs()[i]].type);
  if (!fits)
    fail({"loop: the body's results do not match its carried inputs",
          "a body maps (index, carried...) to new carried values of the same types",
          "return one value of the same type for each carried one"},
         ErrorKind::Type);
  return body[body.outputs()[0]].type;
}

Type infer_result(const Node& node, const Node& of) {
  const bool composite = of.op == Opcode::loop || of.op == Opcode::fused;
  const int64_t index = node.attributes.index;
  if (!composite || index < 0 ||
      index >= static_cast<int64_t>(of.attributes.body->outputs().size()))
    fail({"result: index " + text(index) + " of " + label(of.op),
          "a result is one of the outputs of a loop or fused node", "take an existing index"},
         ErrorKind::Index);
  return (*of.attributes.body)[of.attributes.body->outputs()[static_cast<size_t>(index)]].type;
}

Type infer_structure(const Node& node, const Operands& operands) {
  switch (node.op) {
    case Opcode::scalar:
      if (!node.type.shape.empty())
        fail({"scalar: has shape " + text(node.type.shape), "a runtime scalar has rank 0",
              "use an input"});
      return node.type;
    case Opcode::constant:
      return infer_constant(node);
    case Opcode::broadcast:
      return infer_broadcast(node, type(operands, 0));
    case Opcode::reshape:
      return infer_reshape(node, type(operands, 0));
    case Opcode::transpose:
      return infer_transpose(node, type(operands, 0));
    case Opcode::view:
      return infer_view(node, operands);
    case Opcode::matmul:
      return infer_matmul(node, type(operands, 0), type(operands, 1));
    case Opcode::loop:
      return infer_loop(node, operands);
    case Opcode::fused:
      require_body(node, operands, 0);
      return (*node.attributes.body)[node.attributes.body->outputs()[0]].type;
    case Opcode::result:
      return infer_result(node, *operands[0]);
    default:
      return node.type;
  }
}

Type infer_reduce(const Node& node, const Type& from) {
  require_dtype(node.op, from.dtype);
  const auto& axes = node.attributes.axes;
  if (normal_axes(node.op, axes, from.shape.size()) != axes)
    fail({label(node.op) + ": axes [" + joined(axes, ", ", [](int64_t a) { return text(a); }) +
              "] are not in order",
          "the axes of a node count from the front and increase", "sort the axes"});
  Type to = from;
  for (const int64_t axis : axes) to.shape[static_cast<size_t>(axis)] = 1;
  return to;
}

Type infer_where(const Node& node, const Operands& operands) {
  if (type(operands, 0).dtype != DType::Bool)
    fail({"where: the condition is " + std::string(name(type(operands, 0).dtype)),
          "the condition must be bool", "compare it with 0"},
         ErrorKind::Type);
  require_same_dtype(node.op, type(operands, 1), type(operands, 2));
  require_same_shape(node.op, type(operands, 0), type(operands, 1));
  require_same_shape(node.op, type(operands, 1), type(operands, 2));
  return type(operands, 1);
}

}  // namespace

bool may_equal(const Dim& a, const Dim& b) {
  return a == b || !a.is_constant() || !b.is_constant();
}

bool accepts(Opcode op, DType dtype) { return dtypes(op) & bit(dtype); }

std::vector<int64_t> normal_axes(Opcode op, std::vector<int64_t> axes, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  for (int64_t& axis : axes) {
    if (axis < -r || axis >= r)
      fail({label(op) + ": axis " + text(axis) + " of a tensor of rank " + text(r),
            "axes lie between -rank and rank-1", "choose an existing axis"},
           ErrorKind::Index);
    axis += axis < 0 ? r : 0;
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail({label(op) + ": an axis is named twice in [" +
              joined(axes, ", ", [](int64_t a) { return text(a); }) + "]",
          "an axis is reduced once", "name every axis once"});
  return axes;
}

Type infer(const Node& node, const Operands& operands) {
  const OpcodeInfo& row = info(node.op);
  if (row.arity >= 0 && operands.size() != static_cast<size_t>(row.arity))
    fail({label(node.op) + ": has " + std::to_string(operands.size()) + " operands",
          label(node.op) + " takes " + std::to_string(row.arity), "pass that many operands"});
  if (node.op == Opcode::view && operands.empty())
    fail({"view: has no operands", "a view takes a tensor and offsets", "pass the tensor"});
  if (row.family == Family::Structure) return infer_structure(node, operands);
  if (row.family == Family::Reduce) return infer_reduce(node, type(operands, 0));
  if (row.family == Family::Select) return infer_where(node, operands);
  Type out = type(operands, 0);
  require_dtype(node.op, out.dtype);
  if (row.arity == 2) {
    require_same_dtype(node.op, out, type(operands, 1));
    require_same_shape(node.op, out, type(operands, 1));
  }
  if (row.family == Family::Compare) out.dtype = DType::Bool;
  if (row.family == Family::Convert) out.dtype = node.type.dtype;
  return out;
}

}  // namespace pto
