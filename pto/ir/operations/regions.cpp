// SPDX-License-Identifier: Apache-2.0
// Operations with bodies: graphs that run inside a graph.
#include <algorithm>

#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

bool compatible(const Type& a, const Type& b) {
  return a.dtype == b.dtype &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(), may_equal);
}

const Graph& body_of(const Node& node) { return *node.attributes.body; }
const Type& output_type(const Graph& body, size_t i) { return body[body.outputs()[i]].type; }
const Node& parameter(const Graph& body, size_t i) { return body[body.inputs()[i]]; }

std::vector<Type> results_of_body(const Node& node) {
  std::vector<Type> types;
  for (const Value v : body_of(node).outputs()) types.push_back(body_of(node)[v].type);
  return types;
}

// The operands behind the first `skipped` are the inputs of the body.
void require_body(const Node& node, const Operands& operands, size_t skipped) {
  if (node.attributes.body == nullptr || body_of(node).outputs().empty())
    fail({label(node.op) + ": has no body with outputs", "the body computes the results",
          "build the body first"});
  const Graph& body = body_of(node);
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

void add_sizes_of_body(std::vector<SizePair>& pairs, const Node& node, const Operands& operands,
                       size_t skipped) {
  for (size_t i = skipped; i < operands.size(); ++i) {
    const Dims& shape = parameter(body_of(node), i - skipped).type.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      pairs.push_back({shape[axis], type(operands, i).shape[axis], false,
                       "an operand has the shape of the body's input"});
  }
}

// --- loop: the body takes neither start nor stop; the index stands at the place of step ----------

Type infer_loop(const Node& node, const Operands& operands) {
  if (operands.size() < 4)
    fail({"loop: has " + std::to_string(operands.size()) + " operands",
          "a loop takes start, stop, step and at least one carried value",
          "carry what the loop computes"});
  for (size_t i = 0; i < 3; ++i) require_scalar(node.op, type(operands, i), "a bound");
  require_body(node, operands, 2);
  const Graph& body = body_of(node);
  bool fits = body.outputs().size() + 1 <= body.inputs().size();
  for (size_t i = 0; fits && i < body.outputs().size(); ++i)
    fits = compatible(parameter(body, i + 1).type, output_type(body, i));
  if (!fits)
    fail({"loop: the body's results do not match its carried inputs",
          "a body maps (index, carried..., others...) to new carried values of the same types",
          "return one value of the same type for each carried one"},
         ErrorKind::Type);
  return output_type(body, 0);
}

// An iteration must produce the types that the next one takes.
std::vector<SizePair> sizes_of_loop(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs;
  add_sizes_of_body(pairs, node, operands, 2);
  const Graph& body = body_of(node);
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const Dims &from = output_type(body, i).shape, &to = parameter(body, i + 1).type.shape;
    for (size_t axis = 0; axis < from.size(); ++axis)
      pairs.push_back(
          {from[axis], to[axis], false, "a loop carries values of the same shape", &body});
  }
  return pairs;
}

std::vector<Bounded> evaluate_loop(Evaluation& in, const Node& node) {
  const auto bound_of = [&](size_t i) { return in.operand(node, i).array.integers[0]; };
  const int64_t stop = bound_of(1), step = bound_of(2);
  if (step == 0)
    fail({"loop: the step is 0", "a loop must come to its end", "use a positive or negative step"});
  const Graph& body = body_of(node);
  Shared values{nullptr};  // of the body's inputs: the index, what is carried, the others
  for (size_t i = 3; i < node.operands.size(); ++i) values.push_back(in.shared(node.operands[i]));
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

// --- fused ---------------------------------------------------------------------------------------

Type infer_fused(const Node& node, const Operands& operands) {
  require_body(node, operands, 0);
  return output_type(body_of(node), 0);
}

std::vector<SizePair> sizes_of_fused(const Node& node, const Operands& operands) {
  std::vector<SizePair> pairs;
  add_sizes_of_body(pairs, node, operands, 0);
  return pairs;
}

std::vector<Bounded> evaluate_fused(Evaluation& in, const Node& node) {
  Shared inputs;
  for (const Value v : node.operands) inputs.push_back(in.shared(v));
  std::vector<Bounded> results;
  for (const auto& result : in.run_body(body_of(node), inputs)) results.push_back(*result);
  return results;
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

}  // namespace

namespace operations {

constinit const Operation loop{.info = {"loop", "", Family::Structure, -1},
                               .field = Field::Body,
                               .infer = infer_loop,
                               .results = results_of_body,
                               .sizes = sizes_of_loop,
                               .evaluate = evaluate_loop};
constinit const Operation fused{.info = {"fused", "", Family::Structure, -1},
                                .field = Field::Body,
                                .kernel = KernelForm::Region,
                                .infer = infer_fused,
                                .results = results_of_body,
                                .sizes = sizes_of_fused,
                                .evaluate = evaluate_fused};
constinit const Operation result{.info = {"result", "", Family::Structure, 1},
                                 .field = Field::Index,
                                 .kernel = KernelForm::Region,
                                 .infer = infer_result,
                                 .evaluate = evaluate_result,
                                 .keeps_rows_apart = rows_of_result};

}  // namespace operations
}  // namespace pto
