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

#define PTO_QUESTION(name, type, answer, otherwise)         \
  template <class T>                                        \
  auto name(const T& tensor, int)->decltype(type(answer)) { \
    return type(answer);                                    \
  }                                                         \
  template <class T>                                        \
  type name(const T&, long) {                               \
    return otherwise;                                       \
  }
PTO_QUESTION(torch_type_of, int32_t, tensor.scalar_type(), -1)
PTO_QUESTION(is_on_cpu, bool, tensor.is_cpu(), true)
PTO_QUESTION(device_of, int32_t, tensor.is_privateuseone() ? int32_t(tensor.get_device()) : -1, -1)
PTO_QUESTION(is_defined, bool, tensor.defined(), true)
#undef PTO_QUESTION

}  // namespace launch
PTO_NAMESPACE_END
