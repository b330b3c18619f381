// SPDX-License-Identifier: Apache-2.0
// Launch: launches typed kernels from C++: calls a __global__ function with pointers or tensors.
//
//     EXEC_KERNEL_CMD(MyAddKernel, 24, out, x, y, length);        // 24 blocks; returns when done
//     EXEC_KERNEL_ASYNC(MyAddKernel, 24, stream, out, x, y, n);   // in the order of the stream
//     PTO_KERNEL(my_add, MyAddKernel)   // exports int32_t my_add(const pto_args*), see abi/host.h
//
// A function named kernel_entry that takes int64_t* has the public form: it gets one slot per
// argument (pto_slot_kernel in abi/host.h), so a call passes tensors and pointers first, then
// numbers, as many as it reads.
// A pointer parameter takes a pointer, nullptr, or a tensor: anything with data_ptr(), nbytes(),
// is_contiguous(), sizes() and strides(), such as at::Tensor. A tensor must be contiguous, on the
// CPU or a device with streams, and of the parameter's element type; its extent bounds a
// one-argument GlobalTensor. A scalar parameter takes a number that it can hold.
// A plain pointer into memory of a device with streams, such as x.data_ptr<float>() of an npu
// tensor, is bounded by the bytes that were allocated there, which may be more than a view has. In
// a TensorFlow kernel (compat/pto/common/tensorflow_kernels.hpp) the operator's tensor that holds a
// pointer bounds it. The bound of any other plain pointer is known only in a registered range
// (abi/host.h): pass the tensor, or give the GlobalTensor a count.
// Errors: a call that does not fit throws std::runtime_error (what / why / fix, with both
// signatures or values) where exceptions are enabled; else it returns a non-zero code and
// pto_last_error() holds the text. Nothing has run then. A kernel's own exception comes back
// likewise.
// On the CPU a stream's order is program order, so both forms return after the last block. Tensors
// of a device with streams (abi/device_queue.h), and plain pointers into its memory, make the call
// launch on the given stream, else on the device's current one; it returns at once, unless a plain
// pointer is among the arguments. Inside a kernel of a stream a launch runs there and then.
//
// Thread safety: any thread may launch.
#pragma once
#include "pto/abi/host.h"
#include "pto/abi/typed_call.h"
#include "pto/isa/element/numeric.hpp"
#include "pto/isa/kernel/tensor_facts.hpp"

PTO_NAMESPACE_BEGIN
namespace launch {

template <class T>
struct ElementType {
  static constexpr uint8_t kCode = PTO_TYPE_ANY, kBits = 0;
};
template <class T>
struct ElementType<const T> : ElementType<T> {};
#define PTO_ELEMENT_TYPE(type, code)                                 \
  template <>                                                        \
  struct ElementType<type> {                                         \
    static constexpr uint8_t kCode = code, kBits = sizeof(type) * 8; \
  };
#define PTO_DTYPE(id, constant, name, code, bits, type, ...) PTO_ELEMENT_TYPE(type, code)
#include "pto/abi/dtypes.def"
PTO_ELEMENT_TYPE(char, char(-1) < 0 ? 0 : 1)
PTO_ELEMENT_TYPE(long long, 0)  // int64_t is long
PTO_ELEMENT_TYPE(unsigned long long, 1)
#undef PTO_ELEMENT_TYPE

template <class T>
constexpr bool is_number = ElementType<T>::kCode != PTO_TYPE_ANY;
template <class T>
constexpr bool is_real = ElementType<T>::kCode == 2 || ElementType<T>::kCode == 4;

// Reads one parameter from its slot.
template <class T>
struct Parameter {
  static_assert(is_number<T>,
                "a kernel's parameter must be a pointer or a number; pass a structure by pointer");
  static constexpr bool kIsPointer = false;
  static constexpr pto_parameter kFacts = {0, 0, ElementType<T>::kCode, ElementType<T>::kBits};
  static T read(const pto_args* args, int, int scalar) {
    const uint64_t slot = args->scalars[scalar];
    if constexpr (is_real<T>) {
      double value;
      __builtin_memcpy(&value, &slot, sizeof(value));
      if constexpr (sizeof(T) == sizeof(double))
        return value;
      else
        return T(float(value));
    } else {
      return T(slot);
    }
  }
};
template <class T>
struct Parameter<T*> {
  static constexpr bool kIsPointer = true;
  static constexpr pto_parameter kFacts = {1, __is_same(T, const T), ElementType<T>::kCode,
                                           ElementType<T>::kBits};
  static T* read(const pto_args* args, int tensor, int) {
    return static_cast<T*>(args->tensors[tensor].data);
  }
};

template <class F>
struct Typed {
  static_assert(!__is_same(F, F),
                "a kernel is a function that returns void and takes pointers and "
                "numbers: __global__ void kernel(float* out, uint32_t length); an entry made by "
                "PTO_KERNEL is launched with pto_launch");
};
template <class... P, bool kNoexcept>
struct Typed<void (*)(P...) noexcept(kNoexcept)> {
  static constexpr int kCount = sizeof...(P);
  static constexpr pto_parameter kFacts[kCount + 1] = {Parameter<P>::kFacts..., {}};
  static constexpr int tensors_before(int index) {
    int count = 0;
    for (int i = 0; i < index; ++i) count += kFacts[i].is_pointer;
    return count;
  }
  template <auto kFunction, int... I>
  static void call(const pto_args* args, Indices<I...>) {
    kFunction(Parameter<P>::read(args, tensors_before(I), I - tensors_before(I))...);
  }
};

// True where `name` is kernel_entry, in any namespace.
constexpr bool is_slot_name(const char* name) {
  constexpr char kName[] = "kernel_entry";
  const char* last = name;
  for (const char* at = name; *at; ++at)
    if (*at == ':' || *at == '&') last = at + 1;
  int i = 0;
  while (kName[i] && kName[i] == last[i]) ++i;
  return kName[i] == last[i];
}
template <class F>
constexpr bool takes_slots = false;
template <bool kNoexcept>
constexpr bool takes_slots<void (*)(int64_t*) noexcept(kNoexcept)> = true;

// Describes the value that a call passes in one slot: any memory, or the widest number of its kind.
template <class T>
constexpr pto_parameter slot_facts() {
  if constexpr (!is_number<T>)
    return {1, 0, PTO_TYPE_ANY, 0};
  else if constexpr (is_real<T>)
    return {0, 0, 2, 64};
  else
    return {0, 0, T(-1) < T(0) ? uint8_t(0) : uint8_t(1), 64};
}
template <class T>
struct SlotOf {
  static constexpr pto_parameter kFacts = slot_facts<T>();
};
template <class T>
struct SlotOf<const T> : SlotOf<T> {};
template <class T>
struct SlotOf<T&> : SlotOf<T> {};
template <class T>
struct SlotOf<T*> {
  static constexpr pto_parameter kFacts = {1, __is_same(T, const T), PTO_TYPE_ANY, 0};
};
template <class T, size_t N>
struct SlotOf<T[N]> : SlotOf<T*> {};
template <class T, size_t N>
struct SlotOf<const T[N]> : SlotOf<const T*> {};

// Makes the signature of a call of a slot kernel.
template <class... A>
struct Slots {
  static constexpr int kCount = sizeof...(A);
  static constexpr pto_parameter kFacts[kCount + 1] = {SlotOf<A>::kFacts..., {}};
  static constexpr bool memory_is_first() {
    for (int i = 1; i < kCount; ++i)
      if (kFacts[i].is_pointer && !kFacts[i - 1].is_pointer) return false;
    return true;
  }
};
template <auto kFunction>
int32_t enter_slots(const pto_args* args) {
  return pto_enter_slots(kFunction, args);
}

template <auto kFunction>
PTO_INLINE pto_signature signature_of(const char* name) {
  using Kernel = Typed<decltype(kFunction)>;
  return {name, Kernel::kFacts, Kernel::kCount};
}

// Enters a typed kernel from C.
template <auto kFunction>
int32_t enter(const pto_signature* signature, const pto_args* args) {
  using Kernel = Typed<decltype(kFunction)>;
  if (const int32_t code = pto_check_arguments(signature, args)) return code;
  Kernel::template call<kFunction>(args, typename IndicesTo<Kernel::kCount>::type());
  return 0;
}

template <auto kFunction>
int32_t enter_unnamed(const pto_args* args) {
  const pto_signature signature = signature_of<kFunction>("kernel");
  return enter<kFunction>(&signature, args);
}

template <class T>
pto_argument tensor_argument(const T& tensor) {
  pto_argument argument = {};
  argument.kind = PTO_ARGUMENT_TENSOR;
  argument.device = -1;
  argument.is_defined = is_defined(tensor, 0);
  if (!argument.is_defined) return argument;
  const pto_parameter type = type_of(tensor, 0);
  argument.type_code = type.type_code;
  argument.type_bits = type.type_bits;
  argument.is_on_cpu = is_on_cpu(tensor, 0);
  argument.device = device_of(tensor, 0);
  argument.object = &tensor;
  argument.is_contiguous = tensor.is_contiguous();
  argument.sizes = tensor.sizes().data();
  argument.strides = tensor.strides().data();
  argument.rank = int32_t(tensor.sizes().size());
  argument.bytes = int64_t(tensor.nbytes());
  if ((argument.is_on_cpu || argument.device >= 0) && argument.is_contiguous) {
    argument.data = const_cast<void*>(static_cast<const void*>(tensor.data_ptr()));
  }
  return argument;
}

template <class T>
pto_argument argument_of(T* pointer) {
  pto_argument argument = {};
  argument.kind = PTO_ARGUMENT_POINTER;
  argument.device = -1;
  argument.is_const = Parameter<T*>::kFacts.is_const;
  argument.type_code = ElementType<T>::kCode;
  argument.type_bits = ElementType<T>::kBits;
  argument.data = const_cast<void*>(static_cast<const volatile void*>(pointer));
  return argument;
}
inline pto_argument argument_of(decltype(nullptr)) {
  return argument_of(static_cast<void*>(nullptr));
}
template <class T>
pto_argument argument_of(const T& value) {
  static_assert(is_number<T> || is_tensor<T>(0),
                "an argument must be a pointer, a number or a tensor; a tensor is a class with "
                "data_ptr(), nbytes(), is_contiguous(), sizes() and strides()");
  if constexpr (is_number<T>) {
    pto_argument argument = {};
    argument.device = -1;
    argument.type_code = ElementType<T>::kCode;
    argument.type_bits = ElementType<T>::kBits;
    if constexpr (is_real<T>) {
      argument.kind = PTO_ARGUMENT_FLOAT;
      argument.real = double(value);
    } else {
      argument.kind = T(-1) < T(0) ? PTO_ARGUMENT_SIGNED : PTO_ARGUMENT_UNSIGNED;
      argument.integer = int64_t(value);
    }
    return argument;
  } else {
    return tensor_argument(value);
  }
}

PTO_INLINE int32_t finished(int32_t code) {
#if defined(__cpp_exceptions)
  if (code != 0) pto_throw_last_error();
#endif
  return code;
}

// Names the kernel in errors as the caller wrote it.
template <auto kFunction, bool kIsEntry, class... A>
PTO_INLINE int32_t execute_on(const char* name, int64_t blocks, const void* stream,
                              A&&... arguments) {
  const pto_argument all[sizeof...(A) + 1] = {argument_of(arguments)..., {}};
  if constexpr (kIsEntry && takes_slots<decltype(kFunction)>) {
    using Call = Slots<A...>;
    static_assert(Call::memory_is_first(),
                  "kernel_entry gets its tensors and pointers in the first slots and numbers after "
                  "them; pass them in this order");
    const pto_signature signature = {name, Call::kFacts, Call::kCount};
    return finished(
        pto_call(&signature, enter_slots<kFunction>, blocks, stream, all, sizeof...(A)));
  } else {
    const pto_signature signature = signature_of<kFunction>(name);
    return finished(
        pto_call(&signature, enter_unnamed<kFunction>, blocks, stream, all, sizeof...(A)));
  }
}

template <auto kFunction, bool kIsEntry, class... A>
PTO_INLINE int32_t execute(const char* name, int64_t blocks, A&&... arguments) {
  return execute_on<kFunction, kIsEntry>(name, blocks, nullptr, static_cast<A&&>(arguments)...);
}

template <auto kFunction, bool kIsEntry>
int32_t enter_exported(const char* name, const pto_args* args) {
  if constexpr (kIsEntry && takes_slots<decltype(kFunction)>) {
    return pto_enter_slots(kFunction, args);
  } else {
    const pto_signature signature = signature_of<kFunction>(name);
    return enter<kFunction>(&signature, args);
  }
}

// Registers the exported kernel's parameters; `is_loaded` false: its code is about to go.
template <auto kFunction, bool kIsEntry>
void export_kernel(const char* name, pto_kernel kernel, bool is_loaded) {
  if constexpr (!kIsEntry || !takes_slots<decltype(kFunction)>) {
    const pto_signature signature = signature_of<kFunction>(name);
    pto_export_kernel(kernel, is_loaded ? &signature : nullptr);
  }
}

}  // namespace launch
PTO_NAMESPACE_END

// (kernel, blocks, arguments...) and (kernel, blocks, stream, arguments...). The parentheses keep
// the commas inside from other macros around.
#define EXEC_KERNEL_CMD(kernel, ...)                                                         \
  (::pto::isa::launch::execute<&kernel, ::pto::isa::launch::is_slot_name(#kernel)>)(#kernel, \
                                                                                    __VA_ARGS__)
#define EXEC_KERNEL_ASYNC(kernel, ...)                                       \
  (::pto::isa::launch::execute_on<&kernel, ::pto::isa::launch::is_slot_name( \
                                               #kernel)>)(#kernel, __VA_ARGS__)

// The exported name may equal the kernel's: the kernel is looked up before the name is declared.
// Protected: the registered address is that of this object's function, whatever others export.
#define PTO_KERNEL(name, fn)                                                                       \
  static constexpr auto pto_kernel_##name = &fn;                                                   \
  extern "C" __attribute__((visibility("protected"))) int32_t name(const pto_args* args);          \
  extern "C" __attribute__((visibility("protected")))                                              \
  int32_t pto_entry_##name(const pto_args*) __asm__(#name);                                        \
  __attribute__((constructor)) static void pto_export_##name() {                                   \
    ::pto::isa::launch::export_kernel<pto_kernel_##name, ::pto::isa::launch::is_slot_name(#fn)>(   \
        #name, pto_entry_##name, true);                                                            \
  }                                                                                                \
  __attribute__((destructor)) static void pto_withdraw_##name() {                                  \
    ::pto::isa::launch::export_kernel<pto_kernel_##name, ::pto::isa::launch::is_slot_name(#fn)>(   \
        #name, pto_entry_##name, false);                                                           \
  }                                                                                                \
  extern "C" int32_t name(const pto_args* args) {                                                  \
    return ::pto::isa::launch::enter_exported<pto_kernel_##name,                                   \
                                              ::pto::isa::launch::is_slot_name(#fn)>(#name, args); \
  }
