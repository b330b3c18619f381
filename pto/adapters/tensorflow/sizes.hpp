// SPDX-License-Identifier: Apache-2.0
// Sizes: the size expressions of an operator, evaluated on sizes that may be unknown.
//
//     std::vector<OutputShape> outputs;
//     TF_RETURN_IF_ERROR(infer_outputs(op, attributes, tensors, sizes, n_outputs, outputs));
//
// A size that depends on an unknown one is unknown. Known sizes that do not fit are an error.
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "pto/adapters/tensorflow/attributes.hpp"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace pto::tensorflow_adapter {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;

// A size: a number, or an unknown one that may be the same as that of an input. Numbers on the way
// may be negative, which TensorFlow's dimensions cannot be.
struct Size {
  bool is_known = false;
  int64_t value = 0;
  DimensionHandle unknown;

  static Size number(int64_t value) { return {true, value, {}}; }
  static Size of(DimensionHandle dim) {
    if (InferenceContext::ValueKnown(dim)) return number(InferenceContext::Value(dim));
    return {false, 0, dim};
  }
  bool is(int64_t other) const { return is_known && value == other; }
  bool is_same_unknown(const Size& other) const {
    return !is_known && !other.is_known && unknown.Handle() != 0 &&
           unknown.SameHandle(other.unknown);
  }
};

struct OutputShape {
  int32_t dtype = 0;
  std::vector<Size> sizes;
};

// The sizes of one call: evaluates the expressions and checks the guards.
class Sizes {
 public:
  Sizes(const pto_operator& op, const pto_shapes& shapes) : op_(op), shapes_(shapes) {}

  // `symbols`: the sizes of all tensors, then the SymInt attributes.
  absl::Status evaluate(const std::vector<Size>& symbols) {
    for (int i = 0; i < shapes_.n_dims; ++i) {
      const pto_dim& dim = shapes_.dims[i];
      Size size;
      if (dim.op == PTO_DIM_CONSTANT) {
        size = Size::number(dim.value);
      } else if (dim.op == PTO_DIM_SYMBOL) {
        size = symbols.at(static_cast<size_t>(dim.value));
      } else if (dim.op == PTO_DIM_BROADCAST) {
        if (absl::Status status = broadcast(at(dim.left), at(dim.right), size); !status.ok()) {
          return status;
        }
      } else if (absl::Status status = combine(dim.op, at(dim.left), at(dim.right), size);
                 !status.ok()) {
        return status;
      }
      sizes_.push_back(size);
    }
    return check_guards();
  }

  absl::Status outputs(std::vector<OutputShape>& found) const {
    for (int i = 0; i < shapes_.n_tensors; ++i) {
      const pto_shape& shape = shapes_.tensors[i];
      OutputShape& output = found.emplace_back();
      output.dtype = shape.dtype;
      for (int d = 0; d < shape.rank; ++d) {
        const Size& size = at(shape.sizes[d]);
        if (size.is_known && size.value < 0) {
          return refuse(op_,
                        "size " + std::to_string(d) + " of output " + std::to_string(i) + " is " +
                            std::to_string(size.value),
                        "a size is not negative", "pass larger tensors");
        }
        output.sizes.push_back(size);
      }
    }
    return absl::OkStatus();
  }

 private:
  const Size& at(int32_t dim) const { return sizes_[static_cast<size_t>(dim)]; }

  absl::Status broadcast(const Size& a, const Size& b, Size& result) const {
    if (a.is_known && b.is_known && a.value != b.value && a.value != 1 && b.value != 1) {
      return differ(a.value, b.value, "broadcasting");
    }
    if (a.is(1)) {
      result = b;
    } else if (b.is(1) || a.is_known || a.is_same_unknown(b)) {
      result = a;
    } else if (b.is_known) {
      result = b;
    }
    return absl::OkStatus();
  }

  absl::Status combine(int32_t op, const Size& a, const Size& b, Size& result) const {
    const bool divides = op == PTO_DIM_FLOORDIV || op == PTO_DIM_MOD;
    if (divides && b.is(0)) {
      return refuse(op_, "a size divides by zero", "a divisor must not be 0",
                    "pass tensors without empty dimensions");
    }
    if (op == PTO_DIM_MUL && (a.is(0) || b.is(0))) {
      result = Size::number(0);
    } else if (a.is_known && b.is_known) {
      result.is_known = true;
      if (!calculate(op, a.value, b.value, result.value)) {
        return refuse(op_,
                      "a size exceeds 64 bits: an operand is " + std::to_string(a.value) +
                          ", the other " + std::to_string(b.value),
                      "sizes are 64-bit numbers", "pass smaller tensors");
      }
    }
    return absl::OkStatus();
  }

  // False where the result does not fit.
  static bool calculate(int32_t op, int64_t a, int64_t b, int64_t& result) {
    switch (op) {
      case PTO_DIM_ADD:
        return !__builtin_add_overflow(a, b, &result);
      case PTO_DIM_SUB:
        return !__builtin_sub_overflow(a, b, &result);
      case PTO_DIM_MUL:
        return !__builtin_mul_overflow(a, b, &result);
      case PTO_DIM_MIN:
        result = std::min(a, b);
        return true;
      case PTO_DIM_MAX:
        result = std::max(a, b);
        return true;
      default: {
        if (b == -1) {
          result = 0;
          return op == PTO_DIM_MOD || !__builtin_sub_overflow(int64_t{0}, a, &result);
        }
        const int64_t floor = a / b - (a % b != 0 && (a < 0) != (b < 0));
        result = op == PTO_DIM_FLOORDIV ? floor : a - floor * b;
        return true;
      }
    }
  }

  absl::Status check_guards() const {
    for (int i = 0; i < shapes_.n_guards; ++i) {
      const pto_shape_guard& guard = shapes_.guards[i];
      const Size &left = at(guard.left), &right = at(guard.right);
      if (!left.is_known || !right.is_known || left.value == right.value) continue;
      if (shapes_.dims[guard.left].op == PTO_DIM_MIN && right.is(1)) {  // min(size, 1) == 1
        return refuse(op_, std::string(guard.because) + " over an axis of size 0",
                      "there is no largest or smallest of no elements",
                      "pass a tensor that has elements along the reduced axes");
      }
      return differ(left.value, right.value, guard.because);
    }
    return absl::OkStatus();
  }

  absl::Status differ(int64_t left, int64_t right, const std::string& where) const {
    return refuse(
        op_,
        "sizes " + std::to_string(left) + " and " + std::to_string(right) + " differ in " + where,
        "the operator needs them to be equal",
        "pass tensors whose shapes fit; those that broadcast have equal sizes, or 1");
  }

  const pto_operator& op_;
  const pto_shapes& shapes_;
  std::vector<Size> sizes_;
};

// The outputs of a node: `sizes` has those of all tensors, one after another.
inline absl::Status infer_outputs(const pto_operator& op, const Attributes& attributes,
                                  const std::vector<pto_operator_tensor>& tensors,
                                  std::vector<Size> sizes, int n_outputs,
                                  std::vector<OutputShape>& outputs) {
  for (int i = 0, attribute = 0; i < op.n_arguments; ++i) {
    if (is_tensor(op.arguments[i])) continue;
    const int64_t value = attributes.values()[attribute++].integer;
    if (op.arguments[i].kind == PTO_KIND_SYMINT) sizes.push_back(Size::number(value));
  }
  const pto_operator_call call = {
      &op, tensors.data(), attributes.counts(), attributes.values(), nullptr, nullptr, nullptr};
  const pto_shapes* shapes = pto_operator_shapes(&call);
  if (!shapes) return absl::InvalidArgumentError(pto_operator_error());
  if (shapes->n_tensors != n_outputs) {
    return refuse_node(op, "gives " + std::to_string(shapes->n_tensors) +
                               " tensors, but the node has " + std::to_string(n_outputs) +
                               " outputs");
  }
  Sizes all(op, *shapes);
  TF_RETURN_IF_ERROR(all.evaluate(sizes));
  TF_RETURN_IF_ERROR(all.outputs(outputs));
  for (int i = 0; i < op.n_outputs; ++i) {  // the size of one that is bounded is no size yet
    if (op.outputs[i].is_bounded) outputs[static_cast<size_t>(i)].sizes[0] = Size{};
  }
  return absl::OkStatus();
}

}  // namespace pto::tensorflow_adapter
