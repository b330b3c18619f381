// SPDX-License-Identifier: Apache-2.0
// Binder: how the calls of a Python object of type pto._core.Callable are bound and run.
//
//     class Jit(_core.Callable): ...      # Python: bind_function("softmax", ("x",), (), policy)
//     class Operator(_core.Callable): ... # bind_schema(index, policy)
//
// jit_binder.hpp binds to the parameters of a Python function, schema_binder.hpp to the schema of
// an operator.
// Thread safety: needs Python's lock, which large work and compilation release.
#pragma once

#include <Python.h>

#include <memory>
#include <vector>

#include "pto/bindings/argument.hpp"

namespace pto::bindings {

// The arguments of a call, as Python passes them.
struct Passed {
  PyObject* const* args;
  Py_ssize_t count;    // by place; those by name follow
  PyObject* keywords;  // their names, or null
};

class Binder {
 public:
  virtual ~Binder() = default;

  // Returns the result; or null without an error, and in `instead` the Python method that takes the
  // call. Throws PythonError or pto::Error.
  virtual PyObject* call(const Passed& passed, const char** instead) = 0;

  // Returns (tensors, constants, numbers) as `specialise` gets them.
  virtual PyObject* describe(const Passed&) {
    PyErr_SetString(PyExc_TypeError, "describe_call: an operator's calls are not specialised");
    throw PythonError{};
  }

  // Returns the call as a capsule of a pto_bound_call; None where it has no such form.
  virtual PyObject* bound_call(const Passed&) { return Py_NewRef(Py_None); }

  // The next calls compile anew; calls in progress keep their kernels.
  virtual void forget_kernels() {}

  virtual int visit(visitproc, void*) const { return 0; }
};

// The names of parameters and what stands for an argument that is not given.
class Parameters {
 public:
  Parameters() = default;
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
  ~Parameters();

  // `stand_in` may be null, as is then the slot. After one that is `by_name` all are.
  void add(PyObject* name, PyObject* stand_in, bool is_required, bool by_name);
  // From now on `out=` is no argument of the callable.
  void refuse_out() { takes_out_ = false; }

  Py_ssize_t size() const { return static_cast<Py_ssize_t>(all_.size()); }
  PyObject* name(Py_ssize_t place) const { return all_[static_cast<size_t>(place)].name; }

  // Sets a borrowed reference for each parameter, and `out`, null for None. Returns false for
  // arguments that do not fit.
  bool bind(const Passed& passed, PyObject** slots, PyObject** out) const;

  int visit(visitproc visit, void* arg) const;

 private:
  struct Parameter {
    PyObject *name, *stand_in;
    bool is_required;
  };
  bool bind_keyword(PyObject* name, PyObject* value, PyObject** slots, PyObject** out) const;

  std::vector<Parameter> all_;
  Py_ssize_t by_place_ = 0;
  bool takes_out_ = true;
};

}  // namespace pto::bindings
