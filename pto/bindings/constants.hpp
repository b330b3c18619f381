// SPDX-License-Identifier: Apache-2.0
// Constants: Python values in a compilation key, compared exactly.
//
// 1, 1.0 and True differ, 0.0 and -0.0 differ, a NaN equals itself; tuples compare by element.
// Thread safety: needs Python's lock.
#pragma once

#include <Python.h>

#include <cstddef>

namespace pto::bindings {

// Arguments that do not fit the parameters; becomes Python's own text for it.
struct KeyMismatch {};

// Tuples inside each other, at most; callers check it.
inline constexpr int kMaxConstantDepth = 64;

bool same_constant(PyObject* a, PyObject* b);
size_t hash_constant(PyObject* value);

// Of rows of equal length; null entries equal null only.
bool same_constants(PyObject* const* a, PyObject* const* b, size_t count);
size_t hash_constants(PyObject* const* values, size_t count);

}  // namespace pto::bindings
