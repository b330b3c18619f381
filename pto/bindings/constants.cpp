// SPDX-License-Identifier: Apache-2.0
#include "pto/bindings/constants.hpp"

#include <cstdint>
#include <cstring>

namespace pto::bindings {
namespace {

uint64_t bits_of(PyObject* number) {
  double value = PyFloat_AS_DOUBLE(number);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

size_t mixed(size_t seed, size_t value) {
  return (seed ^ value) * 0x9e3779b97f4a7c15ull + (seed >> 29);
}

}  // namespace

bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) return bits_of(a) == bits_of(b);
  if (PyTuple_CheckExact(a)) {
    Py_ssize_t size = PyTuple_GET_SIZE(a);
    if (size != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    return true;
  }
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

size_t hash_constant(PyObject* value) {
  if (value == nullptr) return 1;
  size_t seed = reinterpret_cast<size_t>(Py_TYPE(value));
  if (PyFloat_CheckExact(value)) return mixed(seed, bits_of(value));
  if (PyTuple_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      seed = mixed(seed, hash_constant(PyTuple_GET_ITEM(value, i)));
    return seed;
  }
  return mixed(seed, static_cast<size_t>(PyObject_Hash(value)));
}

bool same_constants(PyObject* const* a, PyObject* const* b, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!same_constant(a[i], b[i])) return false;
  return true;
}

size_t hash_constants(PyObject* const* values, size_t count) {
  size_t seed = count;
  for (size_t i = 0; i < count; ++i) seed = mixed(seed, hash_constant(values[i]));
  return seed;
}

}  // namespace pto::bindings
