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

#include "pto/adapters/partial_outputs.hpp"
#include "pto/adapters/tensorflow/attributes.hpp"
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

using OutputShape = PartialOutput<Unknown>;

// Infers the outputs of a node; `sizes` has those of all tensors, one after another.
inline absl::Status infer_outputs(const pto_operator& op, const Attributes& attributes,
                                  const std::vector<pto_tensor_ref>& tensors,
                                  std::vector<Size> sizes, int n_outputs,
                                  std::vector<OutputShape>& outputs) {
  const pto_operator_call call = {
      &op,     tensors.data(), attributes.counts(), attributes.values(), nullptr, nullptr,
      nullptr, nullptr};
  try {
    outputs = partial_outputs(call, std::move(sizes));
  } catch (const SizeRefusal& refusal) {
    return refuse(op, refusal.what, refusal.why, refusal.fix);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (outputs.size() != static_cast<size_t>(n_outputs)) {
    return refuse_node(op, "gives " + std::to_string(outputs.size()) +
                               " tensors, but the node has " + std::to_string(n_outputs) +
                               " outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t d = 0; d < outputs[i].sizes.size(); ++d) {
      const Size& size = outputs[i].sizes[d];
      if (!size.is_known || size.value >= 0) continue;
      return refuse(op,
                    "size " + std::to_string(d) + " of output " + std::to_string(i) + " is " +
                        std::to_string(size.value),
                    "a size is not negative", "pass larger tensors");
    }
  }
  return absl::OkStatus();
}

}  // namespace pto::tensorflow_adapter
