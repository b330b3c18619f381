// SPDX-License-Identifier: Apache-2.0
// Fronts: typed kernels that stand before PyTorch's own for the CPU, and call them unboxed.
//
//     Front<at::Tensor(const at::Tensor&)>     // the kernel; kFronts lists one for each overload
//
// A front that is on and takes the arguments hands them to the runner, which may refuse. All other
// calls go to the kernel that was there before. generate.py lists the overloads that have a row.
//
// Invariant: a call that the runner makes meets no front; kernels above the CPU key stay as they
// were.
// Thread safety: any thread may call; one thread at a time installs fronts.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "pto/adapters/torch/aten/thunks.hpp"

namespace pto::torch_adapter {

struct FrontState {
  int32_t index;
  c10::OperatorHandle op;
  c10::KernelFunction kept;  // the kernel that was there before
};

struct FrontRow {
  const char* name;
  const char* overload;
  c10::KernelFunction (*make)(const FrontState& state);
};

extern const FrontRow kFronts[];
extern const size_t kFrontCount;

// Runs front `index` on the arguments and leaves the result in their place; false: it refuses.
using FrontRunner = bool (*)(int32_t index, Stack& stack);

// Says whether a front is on for the calling thread, which is not running one.
bool is_front_on(int32_t index);

// Hands the arguments to the runner, as FrontRunner says; false also without a runner.
bool run_front(int32_t index, Stack& stack);

// Checks that arguments are those that rows take: aligned, dense tensors of one type,
// row by row; numbers.
class FrontArguments {
 public:
  void add(const at::Tensor& tensor) {
    const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided &&
                          tensor.device().is_cpu() && !tensor.is_conj() && !tensor.is_neg() &&
                          tensor.is_contiguous() && is_aligned(tensor);
    takes_ = takes_ && is_plain && (count_++ == 0 || tensor.scalar_type() == type_);
    if (takes_) type_ = tensor.scalar_type();
  }
  void add(const std::optional<at::Tensor>& tensor) {
    if (tensor) add(*tensor);
  }
  void add(const std::optional<at::ScalarType>& type) { takes_ = takes_ && !type; }
  template <class T>
  void add(const T&) {}
  bool takes() const { return takes_ && count_ > 0; }

 private:
  static bool is_aligned(const at::Tensor& tensor) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    return address % tensor.element_size() == 0;
  }
  bool takes_ = true;
  int count_ = 0;
  at::ScalarType type_ = at::kFloat;
};

template <class T>
c10::IValue front_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>)
    return std::string(value);
  else if constexpr (std::is_same_v<T, std::optional<std::string_view>>)
    return value ? c10::IValue(std::string(*value)) : c10::IValue();
  else
    return c10::IValue(value);
}

template <class Schema>
class Front;
template <class R, class... A>
class Front<R(A...)> final : public c10::OperatorKernel {
 public:
  explicit Front(const FrontState& state) : state_(state) {}

  R operator()(c10::DispatchKeySet keys, A... arguments) {
    if (is_front_on(state_.index)) {
      FrontArguments all;
      (all.add(arguments), ...);
      if (all.takes()) {
        Stack stack = {front_value<std::decay_t<A>>(arguments)...};
        if (run_front(state_.index, stack)) return result(stack, arguments...);
      }
    }
    return state_.kept.template call<R, A...>(state_.op, keys, std::forward<A>(arguments)...);
  }

 private:
  // The result; of a call that writes an argument, that argument.
  static R result(Stack& stack, A... arguments) {
    if constexpr (std::is_same_v<R, at::Tensor&>) {
      at::Tensor* written = nullptr;
      ((written = place(static_cast<A>(arguments), written)), ...);
      return *written;
    } else {
      return std::move(stack[0]).toTensor();
    }
  }
  template <class T>
  static at::Tensor* place(T&& argument, at::Tensor* before) {
    if constexpr (std::is_same_v<T, at::Tensor&>)
      return &argument;
    else
      return before;
  }
  FrontState state_;
};

template <class Schema>
c10::KernelFunction make_front(const FrontState& state) {
  return c10::KernelFunction::makeFromUnboxedFunctor<false, Front<Schema>>(
      std::make_unique<Front<Schema>>(state));
}

}  // namespace pto::torch_adapter
