// SPDX-License-Identifier: Apache-2.0
// Fronts: typed kernels that stand before PyTorch's own for the CPU, and call them unboxed.
//
//     Front<at::Tensor(const at::Tensor&)>     // the kernel; kFronts lists one for each overload
//
// A front that is on and takes the arguments hands them to the runner, which may refuse. Where the
// runner fails, the kernel runs too: its error is the call's, else that of the runner. All other
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
  uint64_t others;  // a bit for each argument whose element type may be another than the rest's
  c10::OperatorHandle op;
  c10::KernelFunction kept;  // the kernel that was there before
};

struct FrontRow {
  const char* name;
  const char* overload;
  uint64_t others;
  c10::KernelFunction (*make)(const FrontState& state);
};

extern const FrontRow kFronts[];
extern const size_t kFrontCount;

// Which implementations may run a call: none, those that take calls by themselves, or, as
// kFirstSlot + slot, those of a slot.
using Wish = uint8_t;
constexpr Wish kOff = 0, kAnySlot = 1, kFirstSlot = 2;

// Runs front `index` on the arguments and leaves the results in their place; false: it refuses.
using FrontRunner = bool (*)(int32_t index, Wish wish, Stack& stack);

// The wish of the calling thread for a front; kOff while it runs one.
Wish front_wish(int32_t index);

// Hands the arguments to the runner, as FrontRunner says; false also without a runner.
bool run_front(int32_t index, Wish wish, Stack& stack);

// Checks that arguments are those that rows take: aligned, dense tensors, row by row, of one type
// but for the `others`; numbers.
class FrontArguments {
 public:
  explicit FrontArguments(uint64_t others) : others_(others) {}
  template <class T>
  void add(const T& argument) {
    check(argument);
    others_ >>= 1;
  }
  bool takes() const { return takes_ && count_ > 0; }

 private:
  void check(const at::Tensor& tensor) {
    const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided &&
                          tensor.device().is_cpu() && !tensor.is_conj() && !tensor.is_neg() &&
                          tensor.is_contiguous() && is_aligned(tensor);
    takes_ = takes_ && is_plain;
    if (!takes_ || others_ & 1) return;
    takes_ = count_++ == 0 || tensor.scalar_type() == type_;
    type_ = tensor.scalar_type();
  }
  void check(const std::optional<at::Tensor>& tensor) {
    if (tensor) check(*tensor);
  }
  void check(const at::ITensorListRef& tensors) {
    for (const at::Tensor& one : tensors) check(one);
  }
  void check(at::TensorList tensors) {
    for (const at::Tensor& one : tensors) check(one);
  }
  void check(const std::optional<at::ScalarType>& type) { takes_ = takes_ && !type; }
  void check(const std::optional<at::MemoryFormat>& format) {  // these two keep rows as they are
    takes_ = takes_ && (!format || *format == at::MemoryFormat::Contiguous ||
                        *format == at::MemoryFormat::Preserve);
  }
  void check(const c10::SymInt& number) { takes_ = takes_ && !number.is_symbolic(); }
  void check(c10::SymIntArrayRef numbers) {
    for (const c10::SymInt& one : numbers) check(one);
  }
  template <class T>
  void check(const T&) {}
  static bool is_aligned(const at::Tensor& tensor) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
    return address % tensor.element_size() == 0;
  }
  uint64_t others_;  // of the arguments that come
  bool takes_ = true;
  int count_ = 0;
  at::ScalarType type_ = at::kFloat;
};

// The argument for the runner: a type by its name, no format where check() took one.
template <class T>
c10::IValue front_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>)
    return std::string(value);
  else if constexpr (std::is_same_v<T, std::optional<std::string_view>>)
    return value ? c10::IValue(std::string(*value)) : c10::IValue();
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    return std::string(c10::getDtypeNames(value).first);
  else if constexpr (std::is_same_v<T, at::ITensorListRef>)
    return std::vector<at::Tensor>(value.begin(), value.end());
  else if constexpr (std::is_same_v<T, std::optional<at::MemoryFormat>>)
    return c10::IValue();
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
    if (const Wish wish = front_wish(state_.index)) {
      FrontArguments all(state_.others);
      (all.add(arguments), ...);
      if (all.takes()) {
        Stack stack = {front_value<std::decay_t<A>>(arguments)...};
        bool is_taken = false;
        try {
          is_taken = run_front(state_.index, wish, stack);
        } catch (...) {
          call_kept(keys, std::forward<A>(arguments)...);  // whose error is what callers know
          throw;
        }
        if (is_taken) return Result<R>::of(stack, arguments...);
      }
    }
    return call_kept(keys, std::forward<A>(arguments)...);
  }

 private:
  R call_kept(c10::DispatchKeySet keys, A... arguments) {
    return state_.kept.template call<R, A...>(state_.op, keys, std::forward<A>(arguments)...);
  }
  // The results; of a call that writes arguments, these in their order.
  template <class T>
  struct Result {
    static T of(Stack& stack, A...) { return std::move(stack[0]).toTensor(); }
  };
  template <class... T>
  struct Result<std::tuple<T...>> {
    static std::tuple<T...> of(Stack& stack, A...) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return std::tuple<T...>(std::move(stack[I]).toTensor()...);
      }
      (std::index_sequence_for<T...>());
    }
  };
  template <class... T>
  struct Result<std::tuple<T&...>> {
    static std::tuple<T&...> of(Stack&, A... arguments) {
      static_assert((std::is_same_v<A, at::Tensor&> + ...) == sizeof...(T));
      return std::tuple_cat(written<A>(arguments)...);
    }
  };
  template <class T>
  struct Result<T&> {
    static T& of(Stack& stack, A... arguments) {
      return std::get<0>(Result<std::tuple<T&>>::of(stack, std::forward<A>(arguments)...));
    }
  };
  template <class T, class V>
  static auto written(V& argument) {
    if constexpr (std::is_same_v<T, at::Tensor&>)
      return std::tuple<at::Tensor&>(argument);
    else
      return std::tuple<>();
  }
  FrontState state_;
};

template <class Schema>
c10::KernelFunction make_front(const FrontState& state) {
  return c10::KernelFunction::makeFromUnboxedFunctor<false, Front<Schema>>(
      std::make_unique<Front<Schema>>(state));
}

}  // namespace pto::torch_adapter
