// SPDX-License-Identifier: Apache-2.0
// Constants: Python values in a compilation key, compared exactly.
//
//     same_constant(one, true_);        // false: 1, 1.0 and True differ, and so do 0.0 and -0.0
//
// Invariant: a NaN equals itself; tuples compare by element; equal constants have equal hashes.
// Thread safety: needs Python's lock.
#pragma once

#include <Python.h>

#include <cstddef>

namespace pto::bindings {

// The depth to which tuples may nest; callers check it.
inline constexpr int kMaxConstantDepth = 64;

bool same_constant(PyObject* a, PyObject* b);
size_t hash_constant(PyObject* value);

// Compare and hash rows of equal length; a null entry equals only null.
bool same_constants(PyObject* const* a, PyObject* const* b, size_t count);
size_t hash_constants(PyObject* const* values, size_t count);

}  // namespace pto::bindings
