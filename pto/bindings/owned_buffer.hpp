// SPDX-License-Identifier: Apache-2.0
// OwnedBuffer: a Python object that owns the memory of a result until an array takes it over.
//
//     Ref owner = owned_buffer(tensor);        // for numpy.asarray() or jax.numpy.from_dlpack()
//
// It exports its memory, dense and writable, through the buffer protocol, for NumPy (bf16 as its 16
// bits), and through DLPack, versioned if the consumer asks for a version. What a consumer asks for
// and this memory is not (column-major, of another device) is refused with BufferError; sources:
// docs.python.org/3/c-api/buffer.html and __dlpack__ of the array API standard, 2024.12.
// Invariant: the memory is freed once, after the last array over it.
// Thread safety: needs Python's lock; exported tensors may die on any thread.
#pragma once

#include "pto/bindings/argument.hpp"

namespace pto::bindings {

// Takes over dense memory of pto_malloc; frees it if it throws PythonError.
Ref owned_buffer(const pto_tensor_ref& tensor);

// Creates the type; returns false with a Python error set.
bool prepare_owned_buffer();

}  // namespace pto::bindings
