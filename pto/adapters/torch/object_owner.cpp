// SPDX-License-Identifier: Apache-2.0
// For calls from Python, as those of jitted functions: tells packed weights who owns their tensors,
// and lets PyTorch resize their results.
// Thread safety: any thread that holds Python's lock.
#include <torch/csrc/autograd/python_variable.h>

#include "pto/adapters/torch/resizable.hpp"
#include "pto/adapters/torch/weight_owner.hpp"

extern "C" const void* pto_torch_object_owner_address() {
  int32_t (*const owner_of)(PyObject*, pto_weight_owner*) = [](PyObject* object,
                                                               pto_weight_owner* owner) -> int32_t {
    return THPVariable_Check(object) &&
           pto::torch_adapter::weight_owner(THPVariable_Unpack(object), owner);
  };
  return reinterpret_cast<const void*>(owner_of);
}

extern "C" const void* pto_torch_let_resize_object_address() {
  void (*const let)(PyObject*) = [](PyObject* object) {
    pto::torch_adapter::let_resize(THPVariable_Unpack(object));
  };
  return reinterpret_cast<const void*>(let);
}
