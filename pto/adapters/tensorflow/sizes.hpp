// SPDX-License-Identifier: Apache-2.0
// Sizes: evaluates the size expressions of an operator on sizes that may be unknown.
//
//     std::vector<OutputShape> outputs;
//     TF_RETURN_IF_ERROR(infer_outputs(op, attributes, tensors, sizes, n_outputs, outputs));
//
// Invariant: a size that depends on an unknown one is unknown; known sizes that do not fit are an
// error.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "pto/adapters/tensorflow/attributes.hpp"
#include "pto/base/evaluate_sizes.hpp"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/errors.h"

namespace pto::tensorflow_adapter {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;

// The dimension of TensorFlow that an unknown size is; null: nothing is known of it. Numbers on the
// way may be negative, which TensorFlow's dimensions cannot be.
struct Unknown {
  DimensionHandle dim;

  friend bool operator==(const Unknown& a, const Unknown& b) { return a.dim.SameHandle(b.dim); }
};
using Size = PartialSize<Unknown>;

inline Size size_of(DimensionHandle dim) {
  if (InferenceContext::ValueKnown(dim)) return Size::number(InferenceContext::Value(dim));
  return Size::unknown({dim});
}

struct OutputShape {
  int32_t dtype = 0;
  std::vector<Size> sizes;
};

// `symbols`: the sizes of all tensors, then the SymInt attributes.
inline absl::Status evaluate_outputs(const pto_operator& op, const pto_shapes& shapes,
                                     const std::vector<Size>& symbols,
                                     std::vector<OutputShape>& found) {
  std::vector<Size> sizes;
  PartialSizes<Unknown> rules(shapes);
  try {
    sizes = evaluate_sizes(shapes, symbols, rules);
  } catch (const SizeRefusal& refusal) {
    return refuse(op, refusal.what, refusal.why, refusal.fix);
  }
  for (int i = 0; i < shapes.n_tensors; ++i) {
    const pto_shape& shape = shapes.tensors[i];
    OutputShape& output = found.emplace_back();
    output.dtype = shape.dtype;
    for (int d = 0; d < shape.rank; ++d) {
      const Size& size = sizes[static_cast<size_t>(shape.sizes[d])];
      if (size.is_known && size.value < 0) {
        return refuse(op,
                      "size " + std::to_string(d) + " of output " + std::to_string(i) + " is " +
                          std::to_string(size.value),
                      "a size is not negative", "pass larger tensors");
      }
      output.sizes.push_back(size);
    }
  }
  return absl::OkStatus();
}

// Infers the outputs of a node; `sizes` has those of all tensors, one after another.
inline absl::Status infer_outputs(const pto_operator& op, const Attributes& attributes,
                                  const std::vector<pto_tensor_ref>& tensors,
                                  std::vector<Size> sizes, int n_outputs,
                                  std::vector<OutputShape>& outputs) {
  for (int i = 0, attribute = 0; i < op.n_arguments; ++i) {
    if (is_tensor(op.arguments[i])) continue;
    const int64_t value = attributes.values()[attribute++].integer;
    if (op.arguments[i].kind == PTO_KIND_SYMINT) sizes.push_back(Size::number(value));
  }
  const pto_operator_call call = {
      &op,     tensors.data(), attributes.counts(), attributes.values(), nullptr, nullptr,
      nullptr, nullptr};
  const pto_shapes* shapes = pto_operator_shapes(&call);
  if (!shapes) return absl::InvalidArgumentError(pto_operator_error());
  if (shapes->n_tensors != n_outputs) {
    return refuse_node(op, "gives " + std::to_string(shapes->n_tensors) +
                               " tensors, but the node has " + std::to_string(n_outputs) +
                               " outputs");
  }
  TF_RETURN_IF_ERROR(evaluate_outputs(op, *shapes, sizes, outputs));
  for (int i = 0; i < op.n_outputs; ++i) {  // the size of one that is bounded is no size yet
    if (op.outputs[i].is_bounded) outputs[static_cast<size_t>(i)].sizes[0] = Size{};
  }
  return absl::OkStatus();
}

}  // namespace pto::tensorflow_adapter
