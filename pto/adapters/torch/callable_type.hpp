// SPDX-License-Identifier: Apache-2.0
// callable_type() makes the Python type of a C++ object that Python calls.
//
//     PyTypeObject* type = callable_type<DirectCall>("pto.DirectCall", &call);   // null: an error
//
// Thread safety: needs Python's lock. A type lives as long as the process.
#pragma once
#include <Python.h>

namespace pto::torch_adapter {

// Object begins with PyObject_HEAD; there is one type for each Object.
template <class Object>
PyTypeObject* callable_type(const char* name, ternaryfunc call) {
  static PyTypeObject type = [&] {
    PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
    made.tp_name = name;
    made.tp_basicsize = sizeof(Object);
    made.tp_call = call;
    made.tp_flags = Py_TPFLAGS_DEFAULT;
    return made;
  }();
  static const bool is_ready = PyType_Ready(&type) == 0;
  return is_ready ? &type : nullptr;
}

}  // namespace pto::torch_adapter
