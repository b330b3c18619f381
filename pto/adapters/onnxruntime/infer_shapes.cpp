// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/infer_shapes.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "pto/adapters/onnxruntime/attributes.hpp"
#include "pto/adapters/onnxruntime/status.hpp"
#include "pto/adapters/partial_outputs.hpp"
#include "pto/base/error.hpp"

namespace pto::ort {
namespace {

using Size = PartialSize<std::string>;

using OwnedInfo =
    std::unique_ptr<TensorInfo,
                    decltype([](TensorInfo* info) { api::ReleaseTensorTypeAndShapeInfo(info); })>;

// The inputs of a node, as far as their ranks are known.
struct Inputs {
  std::vector<pto_tensor_ref> tensors;
  std::vector<int32_t> counts;
  std::vector<Size> symbols;

  // Returns false if a rank is unknown.
  bool take(const ShapeContext* context, size_t place) {
    TensorInfo* info = nullptr;
    if (!succeeded(api::ShapeInferContext_GetInputTypeShape(context, place, &info)) || !info) {
      return true;  // absent
    }
    int element = 0;
    size_t rank = 0;
    check(api::GetTensorElementType(info, &element));
    if (element == kUndefinedElement) return true;  // absent, before others that are given
    if (!api::TensorTypeAndShape_HasShape(info)) return false;
    check(api::GetDimensionsCount(info, &rank));
    std::vector<int64_t> sizes(rank);
    std::vector<const char*> names(rank, nullptr);
    if (rank > 0) check(api::GetDimensions(info, sizes.data(), rank));
    if (rank > 0) check(api::GetSymbolicDimensions(info, names.data(), rank));
    for (size_t axis = 0; axis < rank; ++axis) {
      symbols.push_back(sizes[axis] >= 0 ? Size::number(sizes[axis])
                                         : Size::unknown(names[axis] ? names[axis] : ""));
    }
    tensors.push_back({nullptr, nullptr, nullptr, static_cast<int32_t>(rank), dtype_of(element)});
    return dtype_of(element) >= 0;
  }

  bool take_all(const pto_operator& op, const ShapeContext* context) {
    size_t count = 0, place = 0;
    check(api::ShapeInferContext_GetInputCount(context, &count));
    for (int32_t i = 0; i < op.n_arguments; ++i) {
      if (!is_tensor(op.arguments[i])) continue;
      const size_t before = tensors.size();
      const bool is_list = op.arguments[i].kind == PTO_KIND_TENSOR_LIST;
      const size_t last = is_list ? count : std::min(count, place + 1);
      for (; place < last; ++place) {
        if (!take(context, place)) return false;
      }
      counts.push_back(static_cast<int32_t>(tensors.size() - before));
    }
    return true;
  }
};

void set_output(ShapeContext* context, size_t place, int dtype, const std::vector<Size>& sizes) {
  TensorInfo* made = nullptr;
  check(api::CreateTensorTypeAndShapeInfo(&made));
  const OwnedInfo info(made);
  std::vector<int64_t> numbers;
  std::vector<const char*> names;
  for (const Size& size : sizes) {
    numbers.push_back(size.is_known ? size.value : -1);
    names.push_back(size.name.c_str());
  }
  check(api::SetTensorElementType(made, element_of(dtype)));
  check(api::SetDimensions(made, numbers.data(), numbers.size()));
  check(api::SetSymbolicDimensions(made, names.data(), names.size()));
  check(api::ShapeInferContext_SetOutputTypeShape(context, place, made));
}

}  // namespace

void infer_shapes(const pto_operator& op, ShapeContext* context) {
  Inputs inputs;
  if (!inputs.take_all(op, context)) return;
  const AttributeValues attributes = attributes_of(op, context);
  const pto_operator_call call = {&op,
                                  inputs.tensors.data(),
                                  inputs.counts.data(),
                                  attributes.data(),
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  nullptr};
  std::vector<PartialOutput<std::string>> outputs;
  try {
    outputs = partial_outputs(call, std::move(inputs.symbols));
  } catch (const SizeRefusal& refusal) {
    fail({std::string(op.name) + ": " + refusal.what, refusal.why,
          "correct the shapes in the model"});
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    set_output(context, i, outputs[i].dtype, outputs[i].sizes);
}

}  // namespace pto::ort
