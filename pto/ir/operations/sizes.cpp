// SPDX-License-Identifier: Apache-2.0
// Sizes and values: a value becomes a size of shapes, a size becomes a value.
#include <sstream>

#include "pto/base/text.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

Type infer_size(const Node& node, const Operands& operands) {
  std::istringstream names(node.attributes.name);
  size_t count = 1;
  for (std::string name; names >> name; count += 2)
    if (const auto op = parse_opcode(name); !op || info(*op).family != Family::Compare)
      fail({"size: compares by " + in_quotes(name),
            "checks show sides of lt, le, gt, ge, eq and ne", "name one of these"});
  if (operands.size() != count)
    fail({"size: has " + std::to_string(operands.size()) + " operands, and compares by " +
              in_quotes(node.attributes.name),
          "it takes a number, and two sides for each comparison that a check shows",
          "pass " + std::to_string(count) + " operands, or name other comparisons"});
  require_scalar(node.op, type(operands, 0), "the number");
  if (!node.attributes.size.is_symbol())
    fail({"size: defines " + text(node.attributes.size), "a number defines one symbol",
          "name a symbol that no other value defines"});
  return {DType::I64, {}};
}

std::vector<Bounded> evaluate_size(Evaluation& in, const Node& node) {
  const int64_t size = in.operand(node, 0).array.integers[0];
  if (size < 0)
    fail({"a size is " + text(size), "sizes that come from data are not negative",
          "limit it: pto.max(n, 0)"});
  in.define(node, size);
  return one_result(in.operand(node, 0));
}

Type infer_extent(const Node&, const Operands&) { return {DType::I64, {}}; }

std::vector<Bounded> evaluate_extent(Evaluation& in, const Node& node) {
  Bounded out = in.empty(DType::I64, {});
  out.array.integers[0] = in.sizes({node.attributes.size})[0];
  return one_result(std::move(out));
}

}  // namespace

namespace operations {

constinit const Operation size{.info = {"size", "", Family::Structure, -1},
                               .field = Field::Size,
                               .kernel = KernelForm::Number,
                               .infer = infer_size,
                               .evaluate = evaluate_size};
constinit const Operation extent{.info = {"extent", "", Family::Structure, 0},
                                 .field = Field::Size,
                                 .kernel = KernelForm::Number,
                                 .infer = infer_extent,
                                 .evaluate = evaluate_extent};

}  // namespace operations
}  // namespace pto
