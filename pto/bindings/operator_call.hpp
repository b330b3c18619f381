// SPDX-License-Identifier: Apache-2.0
// OperatorCall: the callable behind pto.ops.NAME, for NumPy arrays and all arrays with DLPack.
//
//     class Operator(_core.OperatorCall): ...      # Python: language/op.py
//
// A call binds arguments to the schema, reads the arrays where they lie and runs the operator by
// pto_operator_run(), as every adapter does. All other calls (traced tensors, arrays of a framework
// with an adapter, mistakes) go to the Python method `call_otherwise`.
// Invariant: a mutable argument is written where it lies; `out=` names arrays for the results.
// Thread safety: needs Python's lock, which large work and compilation release.
#pragma once

#include <Python.h>

#include <vector>

#include "pto/abi/limits.h"
#include "pto/bindings/operator_run.hpp"

namespace pto::bindings {

class OperatorCall {
 public:
  // `policy` as for ArgumentReader, with adapter(type): whether an adapter takes the call.
  OperatorCall(const pto_operator& op, PyObject* policy);
  ~OperatorCall();
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  // Returns the result, or null without an error if the call is for `call_otherwise`. Throws
  // PythonError or pto::Error.
  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords);

 private:
  struct Bound {
    PyObject* slots[PTO_MAX_ARGUMENTS];  // null: the default
    PyObject* out = nullptr;
  };
  bool bind(PyObject* const* args, Py_ssize_t count, PyObject* keywords, Bound* bound) const;
  bool bind_keyword(PyObject* name, PyObject* value, Bound* bound) const;
  void replace_all(PyObject* out, const ArgumentReader& reader, ArgumentReader* outs,
                   OperatorRun* run) const;

  const pto_operator& op_;
  PyObject* policy_;
  PyObject* name_;
  std::vector<PyObject*> names_;  // of the arguments
  bool takes_out_ = true;
};

}  // namespace pto::bindings
