// SPDX-License-Identifier: Apache-2.0
// Tensor facts: the questions of a launch to a tensor object, of any class like at::Tensor.
//
//     static_assert(is_tensor<at::Tensor>(0));
//     device_of(x, 0);   // 1 for npu:1, -1 on the CPU
//
// Each question takes a second argument, 0: a class that cannot answer gets the other overload.
//
// Thread safety: pure functions.
#pragma once
#include "pto/abi/parameter.h"
#include "pto/isa/tile/types.hpp"

PTO_NAMESPACE_BEGIN
namespace launch {

template <class T>
T&& made();
template <class T>
constexpr auto is_tensor(int)
    -> decltype((void)made<const T&>().data_ptr(), (void)made<const T&>().is_contiguous(), true) {
  return true;
}
template <class T>
constexpr bool is_tensor(...) {
  return false;
}

// The element type, coded as in DLPack; PTO_TYPE_ANY where the class does not tell, or tells a type
// that kernels do not know. at::ScalarType names its types like this.
template <class S>
constexpr pto_parameter named_type(S type) {
  const struct {
    S named;
    uint8_t code, bits;
  } kTypes[] = {{S::Bool, 6, 8},    {S::Char, 0, 8},  {S::Short, 0, 16},    {S::Int, 0, 32},
                {S::Long, 0, 64},   {S::Byte, 1, 8},  {S::UInt16, 1, 16},   {S::UInt32, 1, 32},
                {S::UInt64, 1, 64}, {S::Half, 2, 16}, {S::BFloat16, 4, 16}, {S::Float, 2, 32},
                {S::Double, 2, 64}};
  for (const auto& one : kTypes)
    if (one.named == type) return {0, 0, one.code, one.bits};
  return {0, 0, PTO_TYPE_ANY, 0};
}
template <class T>
auto type_of(const T& tensor, int) -> decltype(named_type(tensor.scalar_type())) {
  return named_type(tensor.scalar_type());
}
template <class T>
pto_parameter type_of(const T&, long) {
  return {0, 0, PTO_TYPE_ANY, 0};
}

#define PTO_QUESTION(name, type, answer, otherwise)         \
  template <class T>                                        \
  auto name(const T& tensor, int)->decltype(type(answer)) { \
    return type(answer);                                    \
  }                                                         \
  template <class T>                                        \
  type name(const T&, long) {                               \
    return otherwise;                                       \
  }
PTO_QUESTION(is_on_cpu, bool, tensor.is_cpu(), true)
PTO_QUESTION(device_of, int32_t, tensor.is_privateuseone() ? int32_t(tensor.get_device()) : -1, -1)
PTO_QUESTION(is_defined, bool, tensor.defined(), true)
#undef PTO_QUESTION

}  // namespace launch
PTO_NAMESPACE_END
