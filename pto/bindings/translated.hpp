// SPDX-License-Identifier: Apache-2.0
// translated(): the border of a hand-written Python type; it turns C++ exceptions into Python
// errors.
//
//     return translated([&] { return state->call(args, count, keywords); });
//
// Invariant: no exception crosses the border.
// Thread safety: needs Python's lock.
#pragma once

#include <new>

#include "pto/bindings/argument.hpp"
#include "pto/bindings/module.hpp"

namespace pto::bindings {

// Runs f, which returns a new reference; returns null with a Python error set if f throws.
template <class F>
PyObject* translated(F f) {
  try {
    return f();
  } catch (const PythonError&) {
  } catch (nanobind::python_error& error) {
    error.restore();
  } catch (const Error& error) {
    set_python_error(error);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace pto::bindings
