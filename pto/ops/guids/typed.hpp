// SPDX-License-Identifier: Apache-2.0
// check_types(): the first check of a kernel that anybody may call by its guid: the number of
// tensors, their types, and equal sizes of those that must agree.
//
//     if (const int32_t code = check_types<T>(in, 2)) return code;
//
// Thread safety: pure functions.
#pragma once

#include "pto/base/error_message.hpp"
#include "pto/isa/kernel/launch.hpp"
#include "pto/operators/kernel_arguments.hpp"

namespace pto::guids {

template <class T>
bool has_type(const pto_tensor& tensor) {
  return tensor.type_code == isa::launch::ElementType<T>::kCode &&
         tensor.type_bits == isa::launch::ElementType<T>::kBits;
}

inline bool has_sizes_of(const pto_tensor& a, const pto_tensor& b) {
  bool same = a.rank == b.rank;
  for (int32_t axis = 0; same && axis < a.rank; ++axis) same = a.sizes[axis] == b.sizes[axis];
  return same;
}

inline int64_t elements(const pto_tensor& tensor) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.sizes[axis];
  return count;
}

// Fails the kernel.
inline int32_t refuse(const KernelArguments& in, const char* what, const char* why,
                      const char* fix) {
  return in.fail(error_message(what, why, fix).c_str());
}

// Fails the kernel where these are not `tensors` tensors of T, all given; else returns 0.
template <class T>
int32_t check_types(const KernelArguments& in, int tensors) {
  if (in.tensors() != tensors) {
    return refuse(in, "it did not get as many tensors as it has",
                  "the inputs come first, then the outputs",
                  "describe those inputs and outputs that the kernel has");
  }
  for (int i = 0; i < tensors; ++i) {
    if (in.is_absent(i) || !has_type<T>(in.tensor(i))) {
      return refuse(in, "a tensor is absent or has another element type than the kernel's",
                    "the name of the kernel says its type",
                    "name the kernel without its type, or give the output that type");
    }
  }
  return 0;
}

inline int32_t refuse_sizes(const KernelArguments& in) {
  return refuse(in, "the sizes of its tensors do not fit each other",
                "the kernel computes the sizes of its outputs from those of its inputs",
                "correct the shape callback of the output");
}

}  // namespace pto::guids
