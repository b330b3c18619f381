// SPDX-License-Identifier: Apache-2.0
#include "pto/operators/native.hpp"

#include <numeric>

#include "pto/base/error.hpp"
#include "pto/operators/operator.hpp"

namespace pto {
namespace {

// Appends the given tensors, then the SymInt attributes, with one symbol for each axis, in the
// numbering of pto_shapes.
void add_inputs(ProgramSpec& spec, const KernelRequest& request, bool takes_strides) {
  const Schema& schema = operator_at(request.op).schema;
  int symbol = 0;
  size_t tensor = 0, count = 0;
  for (const Argument& argument : schema.arguments) {
    if (!is_tensor(argument)) continue;
    for (int32_t n = request.counts[count++]; n > 0; --n) {
      const TensorClass one = tensor_class(request.signature.words[tensor++]);
      Dims shape;
      for (int axis = 0; axis < one.rank; ++axis) shape.push_back(Dim::symbol(symbol++));
      spec.inputs.push_back(
          {argument.name, one.dtype, shape, takes_strides ? one.strides : StrideClass::Contiguous});
    }
  }
  size_t attribute = 0;
  for (const Argument& argument : schema.arguments) {
    if (is_tensor(argument)) continue;
    const AttributeValue& value = request.attributes[attribute++];
    if (argument.kind != ArgumentKind::SymInt) continue;
    const int own = symbol++;
    if (std::holds_alternative<std::monostate>(value)) continue;
    spec.inputs.push_back({argument.name, DType::Bool, {Dim::symbol(own)}});
  }
}

void add_scalars(ProgramSpec& spec, const Schema& schema) {
  for (const Argument& argument : schema.arguments) {
    if (argument.kind != ArgumentKind::Tensor) spec.scalars.push_back({argument.name, DType::I64});
  }
}

// Lists the kernel's tensors: the given ones, with gaps for absent ones, then the outputs.
std::vector<int> launched(const ProgramSpec& spec, const KernelRequest& request) {
  std::vector<int> tensors;
  int next = 0;
  size_t place = 0;
  for (const Argument& argument : operator_at(request.op).schema.arguments) {
    if (!is_tensor(argument)) continue;
    const int32_t count = request.counts[place++];
    for (int32_t n = 0; n < count; ++n) tensors.push_back(next++);
    if (argument.is_optional && count == 0) tensors.push_back(kAbsentTensor);
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    tensors.push_back(static_cast<int>(spec.inputs.size() + i));
  }
  return tensors;
}

}  // namespace

std::vector<TensorKind> kinds_of(const KernelRequest& request) {
  std::vector<TensorKind> kinds;
  const size_t given = std::accumulate(request.counts.begin(), request.counts.end(), size_t{0});
  for (size_t i = 0; i < given; ++i) {
    const TensorClass one = tensor_class(request.signature.words[i]);
    kinds.push_back({one.dtype, one.rank});
  }
  return kinds;
}

InferredShapes infer_shapes_for(const KernelRequest& request) {
  const std::vector<TensorKind> kinds = kinds_of(request);
  return infer_shapes({request.op, kinds, request.attributes, request.counts});
}

std::shared_ptr<const Program> native_program(const KernelRequest& request,
                                              const InferredShapes& shapes, pto_kernel function,
                                              std::shared_ptr<void> library) {
  const pto_operator& op = *pto_operator_at(request.op);
  ProgramSpec spec;
  spec.name = op.name;
  add_inputs(spec, request, operator_at(request.op).takes_strides);
  add_scalars(spec, operator_at(request.op).schema);
  for (size_t i = 0; i < shapes.tensors.size(); ++i) {
    spec.outputs.push_back(
        {"output " + std::to_string(i), shapes.tensors[i].dtype, shapes.tensors[i].sizes});
  }
  for (int32_t i = 0; i < op.n_outputs; ++i) {
    if (op.outputs[i].is_bounded == 0) continue;
    spec.outputs.push_back({"rows of output " + std::to_string(i), DType::I64, {Dim(1)}});
  }
  for (const SizeGuard& guard : shapes.guards) spec.guards.push_back({guard, ""});
  LaunchSpec launch{op.name, launched(spec, request), shapes.items, shapes.bytes};
  spec.launches.push_back(std::move(launch));
  return std::make_shared<Program>(std::move(spec), std::vector<pto_kernel>{function},
                                   std::move(library));
}

}  // namespace pto
