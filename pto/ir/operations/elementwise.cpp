// SPDX-License-Identifier: Apache-2.0
// Element-wise operations: an element of the result follows from that element of the operands.
// Their values are columns of the instruction table, which element.cpp evaluates; here stand the
// facts that the table does not hold.
#include "pto/ir/element.hpp"

#include "pto/ir/bounds.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_same(const Node& node, const Operands& operands) {
  const Type& out = type(operands, 0);
  require_dtype(node.op, out.dtype);
  if (operands.size() == 2) {
    require_same_dtype(node.op, out, type(operands, 1));
    require_same_shape(node.op, out, type(operands, 1));
  }
  return out;
}

Type infer_compare(const Node& node, const Operands& operands) {
  return {DType::Bool, infer_same(node, operands).shape};
}

Type infer_convert(const Node& node, const Operands& operands) {
  return {node.type.dtype, infer_same(node, operands).shape};
}

Type infer_select(const Node& node, const Operands& operands) {
  if (type(operands, 0).dtype != DType::Bool)
    fail({"where: the condition is " + std::string(name(type(operands, 0).dtype)),
          "the condition must be bool", "compare it with 0"},
         ErrorKind::Type);
  require_same_dtype(node.op, type(operands, 1), type(operands, 2));
  require_same_shape(node.op, type(operands, 0), type(operands, 1));
  require_same_shape(node.op, type(operands, 1), type(operands, 2));
  return type(operands, 1);
}

std::vector<Bounded> evaluate_elements(Evaluation& in, const Node& node) {
  const size_t arity = node.operands.size();
  const bool selects = info(node.op).family == Family::Select;
  const DType from = in.operand(node, selects ? 1 : 0).array.dtype;
  Bounded out = in.empty(node.type.dtype, in.operand(node, 0).array.shape);
  std::vector<ElementNumber> x(arity);
  std::vector<double> b(arity);
  for (size_t i = 0; i < out.array.size(); ++i) {
    in.budget().poll(1);
    for (size_t k = 0; k < arity; ++k) x[k] = in.operand(node, k).array.at(i);
    const ElementValue element_value = evaluate_element(node.op, from, node.type.dtype, x);
    out.array.set(i, element_value.number);
    if (!in.with_bounds()) continue;
    for (size_t k = 0; k < arity; ++k) b[k] = in.operand(node, k).bounds[i];
    out.bounds[i] = element_bound(node.op, from, node.type.dtype, x, b, element_value);
  }
  return one_result(std::move(out));
}

// Functions of vectors: 3 and 5 are 2 and 4 ULP of ours and the rounding of the reference.
constexpr Facts function(ErrorGrowth growth) {
  return {.is_expensive = true, .ulps = 3, .ulps_f64 = 5, .growth = growth};
}
constexpr Facts exact(ErrorGrowth growth) { return {.is_exact = true, .growth = growth}; }
constexpr Facts rounding(bool is_exact) {
  return {.is_exact = is_exact, .gives_whole_numbers = true, .growth = ErrorGrowth::Monotone};
}

constexpr Facts facts_of(Opcode op) {
  switch (op) {
    case Opcode::abs:
    case Opcode::neg:
    case Opcode::relu:
      return exact(ErrorGrowth::Slope1);
    case Opcode::floor:
    case Opcode::trunc:
      return rounding(true);
    case Opcode::ceil:
    case Opcode::round:
      return rounding(false);
    case Opcode::exp:
    case Opcode::tanh:
    case Opcode::erf:
      return function(ErrorGrowth::Monotone);
    case Opcode::sigmoid: {
      Facts facts = function(ErrorGrowth::Monotone);
      facts.flushes = true;
      return facts;
    }
    case Opcode::log:
      return function(ErrorGrowth::Steep);
    case Opcode::sin:
    case Opcode::cos:
      return function(ErrorGrowth::Periodic);
    case Opcode::pow:
      return function(ErrorGrowth::Power);
    case Opcode::sqrt:
      return {.is_expensive = true, .growth = ErrorGrowth::Steep};
    case Opcode::rsqrt:
    case Opcode::reciprocal:
      return {.is_expensive = true, .ulps = 2, .ulps_f64 = 2, .growth = ErrorGrowth::Pole};
    case Opcode::add:
    case Opcode::sub:
      return exact(ErrorGrowth::Corners);
    case Opcode::mul:
      return {.may_stay_unrounded = true, .growth = ErrorGrowth::Corners};
    case Opcode::div:
      return {.is_expensive = true, .growth = ErrorGrowth::Quotient};
    case Opcode::fmod:
      return {.is_expensive = true};
    case Opcode::remainder:
      return {.is_expensive = true, .ulps = 1, .ulps_f64 = 1};
    case Opcode::maximum:
    case Opcode::minimum:
      return exact(ErrorGrowth::Largest);
    default:  // of bits and conditions
      return {};
  }
}

// Every unary operation that names no other growth is monotone.
constexpr Facts facts_of_unary(Opcode op) {
  Facts facts = facts_of(op);
  if (facts.growth == ErrorGrowth::Unknown) facts.growth = ErrorGrowth::Monotone;
  return facts;
}

constexpr Operation element(OpcodeInfo info, uint32_t dtypes, Facts facts,
                            Type (*infer)(const Node&, const Operands&)) {
  return {.info = info,
          .dtypes = dtypes,
          .kernel = KernelForm::Element,
          .facts = facts,
          .infer = infer,
          .evaluate = evaluate_elements,
          .operand_map = same_map,
          .keeps_rows_apart = rows_of_elements};
}

}  // namespace

namespace operations {

#define PTO_UNARY(mnemonic, op, value, numpy, dtypes) \
  constinit const Operation op =                      \
      element({#op, #mnemonic, Family::Unary, 1}, dtypes, facts_of_unary(Opcode::op), infer_same);
#define PTO_BINARY(mnemonic, op, value, numpy, dtypes) \
  constinit const Operation op =                       \
      element({#op, #mnemonic, Family::Binary, 2}, dtypes, facts_of(Opcode::op), infer_same);
#define PTO_COMPARE(mode, op, value, numpy, dtypes)                                \
  constinit const Operation op = element({#op, #mode, Family::Compare, 2}, dtypes, \
                                         exact(ErrorGrowth::Unknown), infer_compare);
#define PTO_SELECT(mnemonic, op, ...)                                               \
  constinit const Operation op = element({#op, #mnemonic, Family::Select, 3}, kAny, \
                                         exact(ErrorGrowth::Unknown), infer_select);
#define PTO_CONVERT(mnemonic, op, ...)                                               \
  constinit const Operation op = element({#op, #mnemonic, Family::Convert, 1}, kAny, \
                                         exact(ErrorGrowth::Unknown), infer_convert);
#include "pto/isa/instructions.def"

}  // namespace operations
}  // namespace pto
