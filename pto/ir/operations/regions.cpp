// SPDX-License-Identifier: Apache-2.0
// Operations with bodies: graphs that run inside a graph.
#include <algorithm>

#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/made.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

bool compatible(const Type& a, const Type& b) {
  return a.dtype == b.dtype &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(), may_equal);
}

const Type& output_type(const Graph& body, size_t i) { return body[body.outputs()[i]].type; }
const Node& parameter(const Graph& body, size_t i) { return body[body.inputs()[i]]; }

// The results are those of the last body.
std::vector<Type> results_of_body(const Node& node) {
  const Graph& body = *node.attributes.bodies.back();
  std::vector<Type> types;
  for (const Value v : body.outputs()) types.push_back(body[v].type);
  return types;
}

void require_body(const Node& node, const Operands& operands, const Graph& body) {
  const size_t skipped = operands_ahead(node);
  if (body.outputs().empty())
    fail({label(node.op) + ": a body has no outputs", "the body computes the results",
          "build the body first"});
  if (body.inputs().size() != operands.size() - skipped)
    fail({label(node.op) + ": the body takes " + std::to_string(body.inputs().size()) +
              " inputs but gets " + std::to_string(operands.size() - skipped),
          "every operand is one input of the body", "pass one operand for each input"});
  for (size_t i = skipped; i < operands.size(); ++i) {
    const Type& expected = parameter(body, i - skipped).type;
    if (!compatible(expected, type(operands, i)))
      fail({label(node.op) + ": operand " + std::to_string(i) + " is " + text(type(operands, i)) +
                " but the body expects " + text(expected),
            "operands have the types of the body's inputs", "cast or reshape the operand"},
           ErrorKind::Type);
    if (parameter(body, i - skipped).op == Opcode::scalar && operands[i]->op != Opcode::scalar)
      fail({label(node.op) + ": operand " + std::to_string(i) + " is no scalar of the call",
            "a scalar input of a body takes a scalar of the graph", "make it an input of the body"},
           ErrorKind::Type);
  }
}

void require_bodies(const Node& node, const Operands& operands, size_t count) {
  if (node.attributes.bodies.size() != count)
    fail({label(node.op) + ": has " + std::to_string(node.attributes.bodies.size()) + " bodies",
          label(node.op) + " takes " + std::to_string(count), "write each body"});
  for (const auto& body : node.attributes.bodies) require_body(node, operands, *body);
}

// The first input of a body that its results replace.
size_t carried_input(const Node& node) { return first_carried(node) - operands_ahead(node); }

std::vector<SizePair> sizes_of_bodies(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs;
  const auto add = [&](const Type& from, const Type& to, const char* rule,
                       const Graph* body = nullptr) {
    for (size_t axis = 0; axis < from.shape.size(); ++axis)
      pairs.push_back({from.shape[axis], to.shape[axis], false, rule, body});
  };
  const size_t ahead = operands_ahead(node);
  for (const auto& body : node.attributes.bodies)
    for (size_t i = ahead; i < operands.size(); ++i)
      add(parameter(*body, i - ahead).type, type(operands, i),
          "an operand has the shape of the body's input");
  const Graph &first = node.body(), &last = *node.attributes.bodies.back();
  for (size_t i = 0; node.op != Opcode::fused && i < last.outputs().size(); ++i)
    if (node.op == Opcode::branch)
      add(output_type(first, i), output_type(last, i), "both bodies give values of the same shape",
          &first);
    else
      add(output_type(last, i), parameter(last, i + carried_input(node)).type,
          "a loop carries values of the same shape", &last);
  return pairs;
}

// The values of the operands that the bodies take.
Shared shared_operands(const Evaluation& in, const Node& node) {
  Shared values;
  for (size_t i = operands_ahead(node); i < node.operands.size(); ++i)
    values.push_back(in.shared(node.operands[i]));
  return values;
}

std::vector<Bounded> results_of(const Shared& outputs) {
  std::vector<Bounded> results;
  for (const auto& output : outputs) results.push_back(*output);
  return results;
}

bool is_condition(const Type& type) {
  return type.shape.empty() && (type.dtype == DType::Bool || type.dtype == DType::I64);
}

bool holds(const Bounded& condition) { return condition.array.integers[0] != 0; }

// Compiled code may choose another way where the condition is not exact.
bool is_open(const Evaluation& in, const Bounded& condition) {
  return in.with_bounds() && condition.bounds[0] > 0;
}

// --- loop: the body takes neither start nor stop; the index stands at the place of step ----------

// Says whether an iteration produces the types that the next one takes.
bool fits_carried(const Node& node) {
  const Graph& body = *node.attributes.bodies.back();
  const size_t first = carried_input(node);
  bool fits = body.outputs().size() + first <= body.inputs().size();
  for (size_t i = 0; fits && i < body.outputs().size(); ++i)
    fits = compatible(parameter(body, i + first).type, output_type(body, i));
  return fits;
}

Type infer_loop(const Node& node, const Operands& operands) {
  if (operands.size() < 4)
    fail({"loop: has " + std::to_string(operands.size()) + " operands",
          "a loop takes start, stop, step and at least one carried value",
          "carry what the loop computes"});
  for (size_t i = 0; i < 3; ++i) require_scalar(node.op, type(operands, i), "a bound");
  require_bodies(node, operands, 1);
  if (!fits_carried(node))
    fail({"loop: the body's results do not match its carried inputs",
          "a body maps (index, carried..., others...) to new carried values of the same types",
          "return one value of the same type for each carried one"},
         ErrorKind::Type);
  return output_type(node.body(), 0);
}

std::vector<Bounded> evaluate_loop(Evaluation& in, const Node& node) {
  const auto bound_of = [&](size_t i) { return in.operand(node, i).array.integers[0]; };
  const int64_t stop = bound_of(1), step = bound_of(2);
  if (step == 0)
    fail({"loop: the step is 0", "a loop must come to its end", "use a positive or negative step"});
  const Graph& body = node.body();
  // The body's inputs: the index, in the place of the step, what is carried, the others.
  Shared values = shared_operands(in, node);
  bool fits = true;  // the next index
  for (int64_t index = bound_of(0); fits && (step > 0 ? index < stop : index > stop);
       fits = !__builtin_add_overflow(index, step, &index)) {
    in.budget().work(1);  // a body may have no node
    Bounded at = in.empty(DType::I64, {});
    at.array.integers[0] = index;
    values[0] = std::make_shared<const Bounded>(std::move(at));
    Shared next = in.run_body(body, values);
    std::move(next.begin(), next.end(), values.begin() + 1);
  }
  std::vector<Bounded> results;
  for (size_t i = 0; i < body.outputs().size(); ++i) results.push_back(*values[i + 1]);
  return results;
}

// --- repeat --------------------------------------------------------------------------------------

Type infer_repeat(const Node& node, const Operands& operands) {
  require_bodies(node, operands, 2);
  const Graph& condition = node.body(0);
  if (condition.outputs().size() != 1 || !is_condition(output_type(condition, 0)))
    fail({"repeat: the first body gives " + text(output_type(condition, 0)),
          "one bool or i64 of rank 0 says whether the step runs", "compare numbers"},
         ErrorKind::Type);
  if (!fits_carried(node))
    fail({"repeat: the step's results do not match its carried inputs",
          "a step maps (carried..., others...) to new carried values of the same types",
          "return one value of the same type for each carried one"},
         ErrorKind::Type);
  return output_type(node.body(1), 0);
}

std::vector<Bounded> evaluate_repeat(Evaluation& in, const Node& node) {
  Shared values = shared_operands(in, node);
  const size_t carried = node.body(1).outputs().size();
  bool open = false;
  for (;;) {
    const Shared condition = in.run_body(node.body(0), values);
    open = open || is_open(in, *condition[0]);
    if (!holds(*condition[0])) break;
    in.budget().round();
    Shared next = in.run_body(node.body(1), values);
    std::move(next.begin(), next.end(), values.begin());
  }
  values.resize(carried);
  auto results = results_of(values);
  if (open) std::for_each(results.begin(), results.end(), allow_any_value);
  return results;
}

// --- branch --------------------------------------------------------------------------------------

Type infer_branch(const Node& node, const Operands& operands) {
  if (operands.empty() || !is_condition(type(operands, 0)))
    fail({"branch: the condition is " + (operands.empty() ? "missing" : text(type(operands, 0))),
          "one bool or i64 of rank 0 chooses a body", "compare numbers, or reduce the tensor"},
         ErrorKind::Type);
  require_bodies(node, operands, 2);
  const Graph &then = node.body(0), &otherwise = node.body(1);
  bool fits = then.outputs().size() == otherwise.outputs().size();
  for (size_t i = 0; fits && i < then.outputs().size(); ++i)
    fits = compatible(output_type(then, i), output_type(otherwise, i));
  if (!fits)
    fail({"branch: the bodies give results of different types",
          "one body runs, and its results are those of the branch",
          "return values of the same types from both"},
         ErrorKind::Type);
  return output_type(otherwise, 0);
}

std::vector<Bounded> evaluate_branch(Evaluation& in, const Node& node) {
  const Bounded& condition = in.operand(node, 0);
  const Graph& chosen = node.body(holds(condition) ? 0 : 1);
  auto results = results_of(in.run_body(chosen, shared_operands(in, node)));
  if (is_open(in, condition)) std::for_each(results.begin(), results.end(), allow_any_value);
  return results;
}

// --- fused ---------------------------------------------------------------------------------------

Type infer_fused(const Node& node, const Operands& operands) {
  require_bodies(node, operands, 1);
  return output_type(node.body(), 0);
}

std::vector<Bounded> evaluate_fused(Evaluation& in, const Node& node) {
  return results_of(in.run_body(node.body(), shared_operands(in, node)));
}

// --- result --------------------------------------------------------------------------------------

Type infer_result(const Node& node, const Operands& operands) {
  const Node& of = *operands[0];
  const int64_t index = node.attributes.index;
  const auto results_of = operation(of.op).results;
  const std::vector<Type> types = results_of == nullptr ? std::vector<Type>() : results_of(of);
  if (index >= 0 && index < static_cast<int64_t>(types.size()))
    return types[static_cast<size_t>(index)];
  fail({"result: index " + text(index) + " of " + label(of.op),
        "a result is one of those of a node with several", "take an existing index"},
       ErrorKind::Index);
}

std::vector<Bounded> evaluate_result(Evaluation& in, const Node& node) {
  return one_result(in.result(node.operands[0], static_cast<size_t>(node.attributes.index)));
}

bool rows_of_result(const RowsOf& rows) {
  return rows.all_mapped && rows.many.attributes.index == rows.one.attributes.index;
}

constexpr Operation row_with_bodies(std::string_view name, KernelForm kernel,
                                    Type (*infer)(const Node&, const Operands&),
                                    std::vector<Bounded> (*evaluate)(Evaluation&, const Node&)) {
  return {.info = {name, "", Family::Structure, -1},
          .field = Field::Body,
          .kernel = kernel,
          .infer = infer,
          .results = results_of_body,
          .sizes = sizes_of_bodies,
          .evaluate = evaluate};
}

}  // namespace

namespace operations {

constinit const Operation loop =
    row_with_bodies("loop", KernelForm::Step, infer_loop, evaluate_loop);
constinit const Operation repeat =
    row_with_bodies("repeat", KernelForm::Step, infer_repeat, evaluate_repeat);
constinit const Operation branch =
    row_with_bodies("branch", KernelForm::Step, infer_branch, evaluate_branch);
constinit const Operation fused =
    row_with_bodies("fused", KernelForm::Region, infer_fused, evaluate_fused);
constinit const Operation result{.info = {"result", "", Family::Structure, 1},
                                 .field = Field::Index,
                                 .kernel = KernelForm::Region,
                                 .infer = infer_result,
                                 .evaluate = evaluate_result,
                                 .keeps_rows_apart = rows_of_result};

}  // namespace operations
}  // namespace pto
