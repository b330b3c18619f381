// SPDX-License-Identifier: Apache-2.0
// Weight owners: who owns the memory of an array of Python, for packed weights (abi/weights.h).
//
//     pto_weight_owner owner;
//     if (weight_owner(array, Kind::Numpy, &owner)) constants.set_owner(0, owner);
//
// The owner of a NumPy array is the array that the views of its memory go back to; NumPy counts no
// writes. The adapter sets a function that tells the owners of torch tensors.
// Thread safety: needs Python's lock; what an owner holds does not.
#pragma once
#include "pto/abi/weights.h"
#include "pto/bindings/argument.hpp"

namespace pto::bindings {

using TorchWeightOwner = int32_t (*)(PyObject* tensor, pto_weight_owner* owner);
void set_torch_weight_owner(TorchWeightOwner function);

// Sets *owner; returns false where nothing is known of the owner.
bool weight_owner(PyObject* array, Kind kind, pto_weight_owner* owner);

}  // namespace pto::bindings
