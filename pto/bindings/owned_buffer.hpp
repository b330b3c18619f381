// SPDX-License-Identifier: Apache-2.0
// OwnedBuffer: a Python object that owns the memory of a result until an array takes it over.
//
//     Ref owner = owned_buffer(tensor);        // numpy.asarray(owner),
//     jax.numpy.from_dlpack(owner)
//
// It exports its memory through the buffer protocol, for NumPy (bf16 as its 16 bits), and through
// DLPack, versioned where the consumer says that it knows versions.
// Thread safety: needs Python's lock; exported tensors may die on any thread.
#pragma once

#include "pto/bindings/argument.hpp"

namespace pto::bindings {

// Takes over the memory, dense and from pto_malloc; frees it where it throws PythonError.
Ref owned_buffer(const TensorArgument& tensor);

// Creates the type. False with a Python error set.
bool prepare_owned_buffer();

}  // namespace pto::bindings
