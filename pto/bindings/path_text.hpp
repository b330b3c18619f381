// SPDX-License-Identifier: Apache-2.0
// PathText: a path as the system has it, whose bytes need not be UTF-8: os.fsencode() of Python's.
//
//     m.def("write", [](const PathText& path) { open(path.text); }, "path"_a);
//
// Thread safety: a value; to and from Python under its lock.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace pto::bindings {

struct PathText {
  std::string text;
};

}  // namespace pto::bindings

namespace nanobind::detail {

template <>
struct type_caster<pto::bindings::PathText> {
  NB_TYPE_CASTER(pto::bindings::PathText, const_name("str"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    PyObject* found = nullptr;
    if (PyUnicode_FSConverter(source.ptr(), &found) == 0) {
      PyErr_Clear();
      return false;
    }
    value.text.assign(PyBytes_AS_STRING(found), size_t(PyBytes_GET_SIZE(found)));
    Py_DECREF(found);
    return true;
  }

  static handle from_cpp(const pto::bindings::PathText& path, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeFSDefaultAndSize(path.text.data(), Py_ssize_t(path.text.size()));
  }
};

}  // namespace nanobind::detail
