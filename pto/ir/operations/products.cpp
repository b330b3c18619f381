// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <cmath>

#include "pto/abi/precision.h"
#include "pto/base/text.hpp"
#include "pto/ir/infer.hpp"
#include "pto/ir/operations/evaluation.hpp"
#include "pto/ir/operations/rules.hpp"

namespace pto {
namespace {

// Bytes on the right count as numbers of the left, which hold them exactly.
void require_factors(const Node& node, const Type& a, const Type& b) {
  const bool widens = is_float(a.dtype) && bytes(a.dtype) <= 4 && b.dtype == DType::I8;
  if (!widens) require_same_dtype(node.op, a, b);
  require_dtype(node.op, a.dtype);
}

// A result may be wider than the operands: i8 gives i32, bf16 gives f32.
bool gives(DType from, DType to) {
  return from == to || (is_float(from) == is_float(to) && to != DType::Bool &&
                        bytes(to) > bytes(from) && is_signed(to));
}

Type infer_matmul(const Node& node, const Operands& operands) {
  const Type &a = type(operands, 0), &b = type(operands, 1);
  require_factors(node, a, b);
  const size_t m = a.shape.size(), n = b.shape.size();
  if (m < 2 || n < 2 || !may_equal(a.shape[m - 1], b.shape[n - 2]))
    fail({"matmul: left has shape " + text(a.shape) + " but right has shape " + text(b.shape),
          "[..., M, K] x [..., K, N]: the contraction sizes must match",
          "transpose or reshape an operand"});
  Dims out = broadcast_shape(Dims(a.shape.begin(), a.shape.end() - 2),
                             Dims(b.shape.begin(), b.shape.end() - 2), nullptr);
  out.push_back(a.shape[m - 2]);
  out.push_back(b.shape[n - 1]);
  if (const std::string& precision = node.attributes.name; !precision.empty()) {
    if (a.dtype != DType::F32)
      fail({"matmul: the precision is " + precision + " but the operands are " +
                std::string(name(a.dtype)),
            "only products of f32 have a precision", "leave it out"},
           ErrorKind::Type);
    if (pto_matmul_precision_of(precision.c_str()) == 0)
      fail({"matmul: the precision is " + in_quotes(precision),
            "it is highest, high or medium, or left to the process", "name one of these"});
  }
  const DType to = node.type.dtype;
  if (!gives(a.dtype, to))
    fail({"matmul: the operands are " + std::string(name(a.dtype)) + " but the result is " +
              std::string(name(to)),
          "a product has the type of its operands, or a wider one of the same kind",
          "cast the operands or the result"},
         ErrorKind::Type);
  return {to, out};
}

std::vector<SizePair> sizes_of_matmul(const Node& node, const Operands& operands) {
  const Dims &a = type(operands, 0).shape, &b = type(operands, 1).shape, &to = node.type.shape;
  std::vector<SizePair> pairs{
      {a[a.size() - 1], b[b.size() - 2], false, "the contraction sizes are equal or have a guard"}};
  const Dims batch(to.begin(), to.end() - 2);
  add_fits(pairs, {a.begin(), a.end() - 2}, batch);
  add_fits(pairs, {b.begin(), b.end() - 2}, batch);
  return pairs;
}

// The relative error that a product of two f32 may have at a precision, beside its rounding.
double rounding_of(const std::string& precision) {
  return precision == "medium" ? 0x1p-7 : precision == "high" ? 0x1p-15 : 0;
}

std::vector<Bounded> evaluate_matmul(Evaluation& in, const Node& node) {
  const auto shape = in.sizes(node.type.shape);
  const size_t rank = shape.size();
  const int64_t k = in.operand(node, 0).array.shape.back();
  auto left = shape, right = shape;
  left[rank - 1] = right[rank - 2] = k;
  const int64_t before = in.budget().elements();
  in.budget().hold(elements_of(left));
  in.budget().hold(elements_of(right));
  in.budget().work(evaluate(Dim(elements_of(shape)) * Dim(k), {}));
  const Bounded a = in.broadcast(in.operand(node, 0), left),
                b = in.broadcast(in.operand(node, 1), right);
  in.budget().give_back_to(before);
  Bounded out = in.empty(node.type.dtype, shape);
  const double rounding = rounding_of(node.attributes.name);
  const bool widens = is_float(a.array.dtype) && !is_float(b.array.dtype);
  const auto n = static_cast<size_t>(shape[rank - 1]), m = static_cast<size_t>(shape[rank - 2]);
  const auto depth = static_cast<size_t>(k);
  for (size_t i = 0; i < out.array.size(); ++i) {
    const size_t batch = i / (m * n), row = i / n, column = i % n;
    std::vector<ElementNumber> x;
    std::vector<double> off;
    for (size_t j = 0; j < depth; ++j) {
      const size_t p = row * depth + j, q = batch * depth * n + j * n + column;
      const ElementNumber u = a.array.at(p);
      ElementNumber v = b.array.at(q);
      if (widens) v.real = static_cast<double>(v.integer);
      x.push_back({u.real * v.real, static_cast<int64_t>(static_cast<uint64_t>(u.integer) *
                                                         static_cast<uint64_t>(v.integer))});
      if (in.with_bounds())
        off.push_back(std::abs(u.real) * b.bounds[q] + std::abs(v.real) * a.bounds[p] +
                      a.bounds[p] * b.bounds[q] + std::abs(u.real * v.real) * rounding);
    }
    in.fold_into(out, i, Opcode::sum, x, off, static_cast<double>(x.size()));
  }
  return one_result(std::move(out));
}

bool rows_of_matmul(const RowsOf& rows) {
  const auto equal_ranks = [](const Graph& graph, const Node& node) {
    return graph[node.operands[0]].type.shape.size() == graph[node.operands[1]].type.shape.size();
  };
  return rows.all_mapped && equal_ranks(rows.one_graph, rows.one) &&
         equal_ranks(rows.many_graph, rows.many);
}

}  // namespace

namespace operations {

constinit const Operation matmul{.info = {"matmul", "", Family::Structure, 2},
                                 .dtypes = kArithmetic,
                                 .field = Field::Precision,
                                 .kernel = KernelForm::Step,
                                 .infer = infer_matmul,
                                 .sizes = sizes_of_matmul,
                                 .evaluate = evaluate_matmul,
                                 .keeps_rows_apart = rows_of_matmul};

}  // namespace operations
}  // namespace pto
