// SPDX-License-Identifier: Apache-2.0
#include "pto/adapters/onnxruntime/custom_ops.hpp"

#include <memory>
#include <mutex>
#include <string_view>

#include "pto/adapters/onnxruntime/attributes.hpp"
#include "pto/adapters/onnxruntime/infer_shapes.hpp"
#include "pto/adapters/onnxruntime/kernel.hpp"
#include "pto/adapters/onnxruntime/status.hpp"

namespace pto::ort {
namespace {

// Returns the tensor argument with this number.
const pto_operator_argument& tensor_argument(const pto_operator& op, size_t number) {
  int32_t i = 0;
  while (!is_tensor(op.arguments[i]) || number-- > 0) ++i;
  return op.arguments[i];
}

// One operator; ONNX Runtime passes it to each function.
struct Definition : CustomOp {
  const pto_operator* op;

  static const pto_operator& of(const CustomOp* self) {
    return *static_cast<const Definition*>(self)->op;
  }

  explicit Definition(const pto_operator& record) : op(&record) {
    GetName = [](const CustomOp* self) { return of(self).name; };
    GetExecutionProviderType = [](const CustomOp*) -> const char* { return nullptr; };
    describe_inputs();
    describe_outputs();
    KernelDestroy = [](void* kernel) { delete static_cast<NodeKernel*>(kernel); };
    CreateKernelV2 = [](const CustomOp* self, const void*, const KernelInfo* info, void** made) {
      return guarded([&] { *made = kernel(of(self), info).release(); });
    };
    KernelComputeV2 = [](void* kernel, KernelContext* context) {
      return guarded([&] { static_cast<NodeKernel*>(kernel)->compute(context); });
    };
    InferOutputShapeFn = [](const CustomOp* self, ShapeContext* context) {
      return guarded([&] { infer_shapes(of(self), context); });
    };
    GetStartVersion = [](const CustomOp*) { return 1; };
    GetEndVersion = [](const CustomOp*) { return INT32_MAX; };
  }

  void describe_inputs() {
    GetInputType = [](const CustomOp*, size_t) { return kUndefinedElement; };
    GetInputTypeCount = [](const CustomOp* self) {
      return static_cast<size_t>(of(self).n_tensors);
    };
    GetInputCharacteristic = [](const CustomOp* self, size_t i) {
      const pto_operator_argument& argument = tensor_argument(of(self), i);
      if (argument.kind == PTO_KIND_TENSOR_LIST) return kVariadic;
      return is_optional(argument) ? kOptional : kRequired;
    };
    GetInputMemoryType = [](const CustomOp*, size_t) { return 0; };
    GetVariadicInputMinArity = [](const CustomOp*) { return 1; };
    GetVariadicInputHomogeneity = [](const CustomOp*) { return 1; };
  }

  void describe_outputs() {
    GetOutputType = [](const CustomOp*, size_t) { return kUndefinedElement; };
    GetOutputTypeCount = [](const CustomOp* self) {
      return static_cast<size_t>(of(self).n_outputs);
    };
    GetOutputCharacteristic = [](const CustomOp* self, size_t i) {
      return of(self).outputs[i].is_list ? kVariadic : kRequired;
    };
    GetVariadicOutputMinArity = [](const CustomOp*) { return 1; };
    GetVariadicOutputHomogeneity = [](const CustomOp*) { return 1; };
  }

  static std::unique_ptr<NodeKernel> kernel(const pto_operator& op, const KernelInfo* info) {
    auto made = std::make_unique<NodeKernel>(op);
    made->may_lack_inputs = false;
    for (int32_t i = 0; i < op.n_tensors; ++i) {
      const pto_operator_argument& argument = tensor_argument(op, static_cast<size_t>(i));
      const bool is_list = argument.kind == PTO_KIND_TENSOR_LIST;
      made->inputs.push_back({{i}, is_list});
      made->may_lack_inputs |= is_list || is_optional(argument);
    }
    made->attributes = attributes_of(op, info);
    return made;
  }
};

bool has_form(const pto_operator& op) {
  if (op.name[0] == '_') return false;
  for (int32_t i = 0; i + 1 < op.n_tensors; ++i) {
    if (tensor_argument(op, static_cast<size_t>(i)).kind == PTO_KIND_TENSOR_LIST) return false;
  }
  for (int32_t i = 0; i + 1 < op.n_outputs; ++i) {
    if (op.outputs[i].is_list) return false;
  }
  return true;
}

}  // namespace

Domain* operator_domain() {
  static std::mutex mutex;
  static Domain* domain = nullptr;
  static int32_t seen = 0;
  const std::lock_guard lock(mutex);
  if (!domain) check(api::CreateCustomOpDomain(kOperatorDomain, &domain));
  for (; seen < pto_operator_count(); ++seen) {
    const pto_operator& op = *pto_operator_at(seen);
    const bool has_space = std::string_view(op.name).find("::") != std::string_view::npos;
    if (!has_space && has_form(op)) check(api::CustomOpDomain_Add(domain, new Definition(op)));
  }
  return domain;
}

}  // namespace pto::ort

// SessionOptions.register_custom_ops_library() calls it.
extern "C" pto::ort::Status* RegisterCustomOps(pto::ort::SessionOptions* options,
                                               const pto::ort::ApiBase* base) {
  using namespace pto::ort;
  return connected(base, [&] { check(api::AddCustomOpDomain(options, operator_domain())); });
}
