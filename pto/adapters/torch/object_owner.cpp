// SPDX-License-Identifier: Apache-2.0
// Tells packed weights who owns the tensors of calls from Python, as those of jitted functions.
// Thread safety: any thread that holds Python's lock.
#include <torch/csrc/autograd/python_variable.h>

#include "pto/adapters/torch/weight_owner.hpp"

extern "C" const void* pto_torch_object_owner_address() {
  int32_t (*const owner_of)(PyObject*, pto_weight_owner*) = [](PyObject* object,
                                                               pto_weight_owner* owner) -> int32_t {
    return THPVariable_Check(object) &&
           pto::torch_adapter::weight_owner(THPVariable_Unpack(object), owner);
  };
  return reinterpret_cast<const void*>(owner_of);
}
