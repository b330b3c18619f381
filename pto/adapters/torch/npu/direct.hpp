// SPDX-License-Identifier: Apache-2.0
// Direct: runs PyTorch's structured CPU kernels on npu tensors, in the order of the current stream.
//
//     using Tanh = Direct<at::native::structured_tanh_out, "aten::tanh", Cost::Elementwise>;
//     at::Tensor y = Tanh::functional(x);
//     Tanh::in_place(x);
//
// A structured kernel is an object: meta() checks the arguments and asks for the outputs, impl()
// computes. Here meta() runs at once, on aliases; the stream runs impl() later.
// Invariant: an elementwise kernel that converts its arguments already reads them in meta(), so it
// waits for the stream.
// Thread safety: any thread may call every function.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "pto/adapters/torch/npu/alias.hpp"
#include "pto/adapters/torch/npu/launch.hpp"
#include "pto/adapters/torch/npu/placement.hpp"

namespace pto::torch_npu {

// How an argument is kept until the kernel runs, and how it is then passed.
template <class T>
struct Kept {
  using Type = std::decay_t<T>;
  static const Type& pass(const Type& value) { return value; }
};
template <>
struct Kept<std::string_view> {
  using Type = std::string;
  static std::string_view pass(const Type& value) { return value; }
};
template <>
struct Kept<at::OptionalIntArrayRef> {
  using Type = std::optional<c10::SmallVector<int64_t, 5>>;
  static at::OptionalIntArrayRef pass(const Type& value) {
    if (!value) return {};
    return at::IntArrayRef(*value);
  }
};
inline std::string keep(std::string_view value) { return std::string(value); }
inline std::optional<c10::SmallVector<int64_t, 5>> keep(at::OptionalIntArrayRef value) {
  if (!value) return {};
  return c10::SmallVector<int64_t, 5>(value->begin(), value->end());
}
template <class T>
const T& keep(const T& value) {
  return value;
}

// Elementwise: work grows with the largest tensor. Product: with rows * columns * depth.
enum class Cost { Elementwise, Product };

template <class Native, class Meta, class... Args>
class DirectKernel final : public Native, public StreamKernel {
 public:
  // In place, `self` is both the first argument and the output.
  DirectKernel(const at::Tensor* self, const char* name, Args... args)
      : device_(place(name, args...)),
        output_(self == nullptr ? at::Tensor() : alias_of(*self)),
        args_(argument(args, self)...) {}

  // Checks the arguments and makes the output; then runs, or hands itself to the stream.
  static at::Tensor start(std::unique_ptr<DirectKernel> kernel, Cost cost) {
    Stream& stream = current_stream(kernel->device_);
    const at::AutoDispatchBelowADInplaceOrView below;
    if (kIsElementwise && kernel->converts()) {
      stream.wait();
      const auto accesses = kernel->accesses();
      kernel->meta_kept(kIndices);
      kernel->run();
      return kernel->result_;
    }
    kernel->meta_kept(kIndices);
    at::Tensor result = kernel->result_;
    const Length length = kernel->length(cost);
    stream.submit(std::move(kernel), length);
    return result;
  }

  void run() override {
    const HostScope scope(threads_);
    const auto opened = accesses();
    impl_kept(kIndices);
  }

  const at::Tensor& maybe_get_output(int64_t) override { return output_; }
  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    if (!output_.defined()) make_output(sizes, strides, options);
    if constexpr (kIsElementwise) {
      Native::set_output_raw_strided(index, sizes, strides, options);
    }
  }

 private:
  static constexpr bool kIsElementwise = std::is_base_of_v<at::TensorIteratorBase, Native>;
  static constexpr auto kIndices = std::index_sequence_for<Args...>();

  static int place(const char* name, const auto&... args) {
    Placement place(name);
    const auto note = [&](const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) place.note(value);
    };
    (note(args), ...);
    return place.device();
  }

  template <class T>
  decltype(auto) argument(const T& value, const at::Tensor*) const {
    return keep(value);
  }
  // Returns the alias; in place it shares the output's storage, so that overlaps are seen. Clones a
  // host tensor, which the caller may change before the kernel runs.
  at::Tensor argument(const at::Tensor& value, const at::Tensor* self) const {
    if (value.device().type() == kNpu) {
      if (self == nullptr || !value.is_alias_of(*self)) return alias_of(value);
      return value.is_same(*self) ? output_ : alias_of(value, output_.storage());
    }
    return value.unsafeGetTensorImpl()->is_wrapped_number() ? value : value.clone();
  }

  void make_output(at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) {
    constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    const int before = exchange_device(device_);
    const at::ScalarType dtype = options.dtype().toScalarType();
    result_ = strides.empty()
                  ? at::detail::empty_generic(sizes, allocator(), keys, dtype,
                                              options.memory_format_opt())
                  : at::detail::empty_strided_generic(sizes, strides, allocator(), keys, dtype);
    set_current_device(before);
    output_ = alias_of(result_);
  }

  template <size_t... I>
  void meta_kept(std::index_sequence<I...>) {
    this->meta(Kept<Args>::pass(std::get<I>(args_))...);
  }
  template <size_t... I>
  void impl_kept(std::index_sequence<I...>) {
    this->impl(Kept<Args>::pass(std::get<I>(args_))..., output_);
  }

  void for_tensors(const auto& function) const {
    const auto visit = [&](const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, at::Tensor>) function(value);
    };
    std::apply([&](const auto&... values) { (visit(values), ...); }, args_);
  }

  // Says whether arguments must be converted: otherwise all have one floating type.
  bool converts() const {
    std::optional<at::ScalarType> common;
    bool differs = false;
    for_tensors([&](const at::Tensor& tensor) {
      const at::ScalarType type = tensor.scalar_type();
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
      differs = differs || !at::isFloatingType(type) || (common && *common != type);
      common = type;
    });
    return differs;
  }

  c10::SmallVector<Access, 4> accesses() const {
    c10::SmallVector<Access, 4> opened;
    if (!is_checked()) return opened;
    for_tensors([&](const at::Tensor& tensor) { opened.push_back(access_to(tensor)); });
    if (output_.defined()) opened.push_back(access_to(output_));
    return opened;
  }

  Length length(Cost cost) const {
    int64_t largest = 0;
    double elements = output_.defined() ? static_cast<double>(output_.numel()) : 0;
    for_tensors([&](const at::Tensor& tensor) {
      largest = std::max(largest, static_cast<int64_t>(tensor.nbytes()));
      if (tensor.dim() >= 2) elements *= static_cast<double>(tensor.numel());
    });
    if (cost == Cost::Product) {
      return std::sqrt(elements) < kLongOperations ? Length::Short : Length::Long;
    }
    if (output_.defined()) largest = std::max(largest, static_cast<int64_t>(output_.nbytes()));
    return largest < kLongBytes ? Length::Short : Length::Long;
  }

  const int device_;
  const int threads_ = at::get_num_threads();
  at::Tensor output_;  // on the CPU; before args_, which may share its storage
  std::tuple<typename Kept<Args>::Type...> args_;
  at::Tensor result_;  // the same on the npu; undefined in place
};

// A text that can be a template argument.
template <size_t kSize>
struct Name {
  char text[kSize];
  consteval Name(const char (&given)[kSize]) { std::copy_n(given, kSize, text); }
};

template <class Native, Name kName, Cost kCost, class Signature = decltype(&Native::meta)>
struct Direct;

template <class Native, Name kName, Cost kCost, class Meta, class First, class... Rest>
struct Direct<Native, kName, kCost, void (Meta::*)(First, Rest...)> {
  using Made = DirectKernel<Native, Meta, First, Rest...>;

  static at::Tensor functional(First first, Rest... rest) {
    return Made::start(std::make_unique<Made>(nullptr, kName.text, first, rest...), kCost);
  }
  static at::Tensor& in_place(at::Tensor& self, Rest... rest) {
    Made::start(std::make_unique<Made>(&self, kName.text, self, rest...), kCost);
    return self;
  }
};

}  // namespace pto::torch_npu
