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

template <class T>
auto torch_type_of(const T& tensor, int) -> decltype(static_cast<int32_t>(tensor.scalar_type())) {
  return static_cast<int32_t>(tensor.scalar_type());
}
template <class T>
int32_t torch_type_of(const T&, long) {
  return -1;
}
template <class T>
auto is_on_cpu(const T& tensor, int) -> decltype(bool(tensor.is_cpu())) {
  return tensor.is_cpu();
}
template <class T>
bool is_on_cpu(const T&, long) {
  return true;
}
template <class T>
auto device_of(const T& tensor, int)
    -> decltype(bool(tensor.is_privateuseone()), int32_t(tensor.get_device())) {
  return tensor.is_privateuseone() ? int32_t(tensor.get_device()) : -1;
}
template <class T>
int32_t device_of(const T&, long) {
  return -1;
}
template <class T>
auto is_defined(const T& tensor, int) -> decltype(bool(tensor.defined())) {
  return tensor.defined();
}
template <class T>
bool is_defined(const T&, long) {
  return true;
}

}  // namespace launch
PTO_NAMESPACE_END
