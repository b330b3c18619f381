// SPDX-License-Identifier: Apache-2.0
// Shape: the shape function of an operator, on TensorFlow's dimensions.
//
//     registration->shape_inference_fn = [&op, definition](InferenceContext* context) {
//       return infer_shapes(op, *definition, context);
//     };
//
// Invariant: if the rank of an input is unknown, the shapes of all outputs are unknown.
// Thread safety: the shape function may run on any thread.
#pragma once

#include <algorithm>
#include <vector>

#include "pto/adapters/tensorflow/dtypes.hpp"
#include "pto/adapters/tensorflow/sizes.hpp"

namespace pto::tensorflow_adapter {

inline DimensionHandle dimension(const Size& size, InferenceContext* context) {
  if (size.is_known) return context->MakeDim(size.value);
  return size.name.dim.Handle() ? size.name.dim : context->UnknownDim();
}

inline absl::Status infer_shapes(const pto_operator& op, const tensorflow::OpDef& definition,
                                 InferenceContext* context) {
  Attributes attributes;
  const auto find = [&](const std::string& name) { return context->GetAttr(name); };
  TF_RETURN_IF_ERROR(attributes.read(op, definition, find));
  std::vector<pto_tensor_ref> tensors;
  std::vector<Size> sizes;
  bool ranks_known = true;
  for (int i = 0, tensor = 0, input = 0; i < op.n_arguments; ++i) {
    if (!is_tensor(op.arguments[i])) continue;
    const tensorflow::AttrValue* type = context->GetAttr(type_name(op.arguments[i].type));
    for (int n = attributes.counts()[tensor++]; n > 0; --n, ++input) {
      const auto shape = context->input(input);
      ranks_known = ranks_known && context->RankKnown(shape);
      const int32_t rank = std::max(context->Rank(shape), 0);
      tensors.push_back({nullptr, nullptr, nullptr, rank, type ? ours(type->type()) : -1});
      for (int d = 0; d < rank; ++d) sizes.push_back(size_of(context->Dim(shape, d)));
    }
  }
  std::vector<OutputShape> outputs;
  const int n_outputs = context->num_outputs();
  if (ranks_known) {
    TF_RETURN_IF_ERROR(infer_outputs(op, attributes, tensors, sizes, n_outputs, outputs));
  }
  for (int i = 0; i < n_outputs; ++i) {
    if (!ranks_known) {
      context->set_output(i, context->UnknownShape());
      continue;
    }
    std::vector<DimensionHandle> dims;
    for (const Size& size : outputs[static_cast<size_t>(i)].sizes) {
      dims.push_back(dimension(size, context));
    }
    context->set_output(i, context->MakeShape(dims));
  }
  return absl::OkStatus();
}

}  // namespace pto::tensorflow_adapter
