// SPDX-License-Identifier: Apache-2.0
// The element-wise operation of a user: pto/ir/tile_operation.hpp.
#include <algorithm>
#include <cmath>

#include "pto/base/number.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"
#include "pto/ir/tile_operation.hpp"

namespace pto {
namespace {

[[noreturn]] void fail_body(const std::string& name, const std::string& what) {
  fail({name + ": " + what,
        "a tile operation computes an element from the elements of its operands alone",
        "compute it with element-wise operations of rank 0"},
       ErrorKind::Type);
}

void require_elements(const std::string& name, const Graph& body, const Operands& operands) {
  if (body.inputs().size() != operands.size() || body.outputs().size() != 1)
    fail_body(name, "the body takes " + text(static_cast<int64_t>(body.inputs().size())) +
                        " values and gives " + text(static_cast<int64_t>(body.outputs().size())) +
                        ", for " + text(static_cast<int64_t>(operands.size())) + " operands");
  for (const Node& node : body.nodes()) {
    const bool fits = node.op == Opcode::input || node.op == Opcode::constant ||
                      (is_elementwise(node.op) && node.op != Opcode::tile);
    if (!fits || !node.type.shape.empty())
      fail_body(name, "the body has " + label(node.op) + " of type " + text(node.type));
    if (node.op == Opcode::input && node.type.dtype != type(operands, 0).dtype)
      fail_body(name, "the body takes " + text(node.type) + " and the operands are " +
                          std::string(pto::name(type(operands, 0).dtype)));
  }
  const Type& out = body[body.outputs()[0]].type;
  if (out.dtype != type(operands, 0).dtype)
    fail_body(name, "the body gives " + std::string(pto::name(out.dtype)) + " for operands of " +
                        std::string(pto::name(type(operands, 0).dtype)));
}

Type infer_tile(const Node& node, const Operands& operands) {
  const std::string& name = node.attributes.name;
  if (operands.empty() || node.attributes.bodies.size() > 1)
    fail_body("tile", "has " + text(static_cast<int64_t>(operands.size())) + " operands and " +
                          text(static_cast<int64_t>(node.attributes.bodies.size())) + " bodies");
  require_dtype(node.op, type(operands, 0).dtype);
  for (size_t i = 1; i < operands.size(); ++i) {
    require_same_dtype(node.op, type(operands, 0), type(operands, i));
    require_same_shape(node.op, type(operands, 0), type(operands, i));
  }
  if (node.attributes.bodies.empty()) {
    const size_t count = tile_code(name).parameters.size();
    if (count != operands.size())
      fail({name + ": has " + text(static_cast<int64_t>(operands.size())) + " operands",
            name + " takes " + text(static_cast<int64_t>(count)), "pass that many operands"});
  } else {
    require_elements(name, node.body(), operands);
  }
  return type(operands, 0);
}

Bounded evaluate_body(Evaluation& in, const Node& node, Bounded out) {
  for (size_t i = 0; i < out.array.size(); ++i) {
    Shared x;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      Bounded one = in.empty(node.type.dtype, {});
      one.array.set(0, in.operand(node, k).array.at(i));
      if (in.with_bounds()) one.bounds[0] = in.operand(node, k).bounds[i];
      x.push_back(std::make_shared<const Bounded>(std::move(one)));
    }
    const Shared result = in.run_body(node.body(), x);
    out.array.set(i, result[0]->array.at(0));
    if (in.with_bounds()) out.bounds[i] = result[0]->bounds[0];
  }
  return out;
}

// How far code may be from the values: by the tolerance, and by as much as an error of it in an
// operand makes.
std::vector<double> tolerated(const TileCode& code, const std::vector<std::vector<double>>& x,
                              const std::vector<double>& values, double tolerance) {
  std::vector<double> bounds(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    bounds[i] = tolerance * std::max(std::abs(values[i]), 1e-37);
  for (size_t k = 0; k < x.size(); ++k) {
    std::vector<std::vector<double>> moved = x;
    for (double& element : moved[k]) element *= 1 + tolerance;
    const std::vector<double> other = code.values(moved);
    for (size_t i = 0; i < std::min(values.size(), other.size()); ++i)
      bounds[i] += std::abs(other[i] - values[i]);
  }
  return bounds;
}

// How the errors of operands grow through C++ is unknown, so that they allow any value.
Bounded evaluate_code(Evaluation& in, const Node& node, Bounded out) {
  const TileCode& code = tile_code(node.attributes.name);
  std::vector<std::vector<double>> x;
  for (size_t k = 0; k < node.operands.size(); ++k) x.push_back(in.operand(node, k).array.reals);
  if (out.array.size() == 0) return out;
  const std::vector<double> values = code.values(x);
  if (values.size() != out.array.size())
    fail({node.attributes.name + ": the oracle gives " + text(static_cast<int64_t>(values.size())) +
              " values for " + text(static_cast<int64_t>(out.array.size())) + " elements",
          "it computes an element of the result from each of the operands",
          "return an array of their shape"});
  for (size_t i = 0; i < values.size(); ++i)
    out.array.set(i, {round_to(node.type.dtype, values[i]), 0});
  if (in.with_bounds()) {
    out.bounds = tolerated(code, x, values, code.tolerance(node.type.dtype));
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t k = 0; k < x.size(); ++k)
        if (in.operand(node, k).bounds[i] != 0) out.bounds[i] = INFINITY;
  }
  return out;
}

std::vector<Bounded> evaluate_tile(Evaluation& in, const Node& node) {
  Bounded out = in.empty(node.type.dtype, in.operand(node, 0).array.shape);
  const bool has_body = !node.attributes.bodies.empty();
  return one_result(has_body ? evaluate_body(in, node, std::move(out))
                             : evaluate_code(in, node, std::move(out)));
}

}  // namespace

namespace operations {

constinit const Operation tile{.info = {"tile", "", Family::Structure, -1},
                               .dtypes = kFloat,
                               .field = Field::Tile,
                               .kernel = KernelForm::Element,
                               .facts = {.is_expensive = true},
                               .infer = infer_tile,
                               .evaluate = evaluate_tile,
                               .operand_map = same_map,
                               .keeps_rows_apart = rows_of_elements};

}  // namespace operations
}  // namespace pto
