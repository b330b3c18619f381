// SPDX-License-Identifier: Apache-2.0
// Autocast of operators in C++: one kernel at the Autocast keys, for all operators, casts arguments
// as abi/operator.h says. Built with node.cpp; without this library autocast.py does the same.
//
// Thread safety: kernels may run on any thread; one thread at a time registers.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "pto/adapters/operator.hpp"
#include "pto/adapters/torch/error_text.hpp"
#include "pto/adapters/torch/implementations.hpp"
#include "pto/adapters/torch/operator_name.hpp"

namespace pto::torch_adapter {
namespace {

using at::ScalarType;

// Calls f(tensor) for each tensor of a value that autocast may cast.
template <class F>
void for_each_eligible(const c10::IValue& value, at::DeviceType device, F f) {
  const auto one = [&](const at::Tensor& tensor) {
    if (at::autocast::is_eligible(tensor, device)) f(tensor);
  };
  if (value.isTensor()) one(value.toTensor());
  if (!value.isTensorList()) return;
  for (const at::Tensor& tensor : value.toTensorVector()) one(tensor);
}

class AutocastKernel : public c10::OperatorKernel {
 public:
  AutocastKernel(const pto_operator& op, at::DeviceType device)
      : op_(op),
        device_(device),
        handle_(c10::Dispatcher::singleton().findSchemaOrThrow(qualified_name(op).c_str(), "")) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard below(
        at::autocast::get_autocast_dispatch_key_from_device_type(device_));
    const size_t first = stack->size() - static_cast<size_t>(op_.n_arguments);
    for (int type = 0; type < op_.n_types; ++type) {
      const ScalarType to = target(stack, first, type);
      if (to == ScalarType::Undefined) continue;
      for (int i = 0; i < op_.n_arguments; ++i) {
        if (is_of(i, type)) cast((*stack)[first + static_cast<size_t>(i)], to);
      }
    }
    handle_.callBoxed(stack);
  }

 private:
  bool is_of(int argument, int type) const {
    const pto_operator_argument& one = op_.arguments[argument];
    return is_tensor(one) && one.type == type && (one.flags & PTO_ARGUMENT_MUTABLE) == 0;
  }

  // Returns the element type for the arguments of one type variable; Undefined: keep theirs.
  ScalarType target(const torch::jit::Stack* stack, size_t first, int type) const {
    ScalarType widest = ScalarType::Undefined;
    for (int i = 0; i < op_.n_arguments; ++i) {
      if (!is_of(i, type)) continue;
      for_each_eligible(
          (*stack)[first + static_cast<size_t>(i)], device_, [&widest](const at::Tensor& tensor) {
            const ScalarType own = tensor.scalar_type();
            widest = widest == ScalarType::Undefined ? own : c10::promoteTypes(widest, own);
          });
    }
    if (widest == ScalarType::Undefined || op_.autocast == PTO_AUTOCAST_WIDEST) return widest;
    return op_.autocast == PTO_AUTOCAST_F32 ? ScalarType::Float
                                            : at::autocast::get_autocast_dtype(device_);
  }

  void cast(c10::IValue& value, ScalarType to) const {
    if (value.isTensor()) value = at::autocast::cached_cast(to, value.toTensor(), device_);
    if (value.isTensorList()) {
      const std::vector<at::Tensor> tensors = value.toTensorVector();
      value = at::autocast::cached_cast(to, at::TensorList(tensors), device_);
    }
  }

  const pto_operator& op_;
  const at::DeviceType device_;
  const c10::OperatorHandle handle_;
};

}  // namespace
}  // namespace pto::torch_adapter

// Registers an operator of ops.cpp for autocast on the CPU and the npu device. Returns null, or the
// text of the error.
extern "C" const char* pto_torch_register_autocast(int32_t index) {
  using namespace pto::torch_adapter;
  return error_text([&] {
    const pto_operator* op = pto_operator_at(index);
    TORCH_CHECK(op != nullptr, "there is no operator ", index);
    for (const auto& [key, device] : {std::pair(c10::DispatchKey::AutocastCPU, at::kCPU),
                                      {c10::DispatchKey::AutocastPrivateUse1, at::kPrivateUse1}}) {
      library_of(*op, key).impl(
          qualified_name(*op).c_str(),
          torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutocastKernel>(*op, device)));
    }
  });
}
