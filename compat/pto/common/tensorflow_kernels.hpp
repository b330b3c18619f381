// SPDX-License-Identifier: Apache-2.0
// TensorFlow kernels that pass plain pointers to tile kernels: while Compute() runs, the inputs and
// outputs of the operator bound the pointers into them.
//
//     #include <tensorflow/core/framework/op_kernel.h>
//     #include <pto/pto-inst.hpp>                        // includes this header after TensorFlow's
//     void Compute(OpKernelContext* c) override {
//       EXEC_KERNEL_CMD(MyKernel, 24, out->flat<float>().data(), x.flat<float>().data(), n);
//     }
//     REGISTER_KERNEL_BUILDER(Name("My").Device(DEVICE_CPU), My);
//
// REGISTER_KERNEL_BUILDER registers Bounded<My>. The bound of memory from allocate_temp() is
// unknown: pass its size to the kernel, and give the GlobalTensor a count.
//
// Invariant: nothing outlives Compute(); a kernel that finishes later (AsyncOpKernel) is registered
// as it is.
// Thread safety: that of the kernel.
#pragma once
#include <type_traits>

#include "pto/isa/kernel/launch.hpp"

namespace pto::tensorflow_kernels {

// Returns the bytes from the pointer to the end of the operator's tensor that holds it, or -1.
inline int64_t bytes_from(void* running, const void* pointer) {
  auto* const context = static_cast<tensorflow::OpKernelContext*>(running);
  const auto* const at = static_cast<const char*>(pointer);
  int64_t bytes = -1;
  const auto look = [&](const tensorflow::Tensor& tensor) {
    const auto* const base = static_cast<const char*>(tensor.data());
    const auto size = static_cast<int64_t>(tensor.TotalBytes());
    if (base == nullptr || at < base || at - base >= size) return;
    const int64_t left = size - (at - base);
    if (bytes < 0 || left < bytes) bytes = left;
  };
  for (int i = 0; i < context->num_inputs(); ++i) {
    if (context->has_input(i) && !context->input_is_ref(i)) look(context->input(i));
  }
  for (int i = 0; i < context->num_outputs(); ++i) {
    if (const tensorflow::Tensor* const output = context->mutable_output(i)) look(*output);
  }
  return bytes;
}

template <class Kernel>
class Bounded : public Kernel {
 public:
  using Kernel::Kernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    pto_pointer_scope scope = {bytes_from, context, nullptr};
    pto_enter_pointers(&scope);
    struct Leave {
      pto_pointer_scope* scope;
      ~Leave() { pto_leave_pointers(scope); }
    } const leave{&scope};
    Kernel::Compute(context);
  }
};

template <class Kernel>
constexpr bool is_async = std::is_base_of_v<tensorflow::AsyncOpKernel, Kernel>;
template <class Kernel>
using Registered = std::conditional_t<is_async<Kernel>, Kernel, Bounded<Kernel>>;

}  // namespace pto::tensorflow_kernels

#undef REGISTER_KERNEL_BUILDER
#define REGISTER_KERNEL_BUILDER(definition, ...)  \
  TF_ATTRIBUTE_ANNOTATE("tf:kernel")              \
  REGISTER_KERNEL_BUILDER_IMPL(definition, false, \
                               ::pto::tensorflow_kernels::Registered<__VA_ARGS__>)
