// SPDX-License-Identifier: Apache-2.0
// SchemaBinder: binds calls of pto.ops.NAME, on NumPy arrays and all arrays with DLPack.
//
//     operator.bind_schema(index, policy)      # Python, of a _core.Callable: language/op.py
//
// A call binds arguments to the schema, reads the arrays where they lie and runs the operator by
// pto_operator_run(), as every adapter does. All other calls (traced tensors, arrays of a framework
// with an adapter, mistakes) go to the Python method `call_otherwise`.
// Invariant: a mutable argument is written where it lies; `out=` names arrays for the results.
// Thread safety: needs Python's lock, which large work and compilation release.
#pragma once

#include "pto/bindings/callable.hpp"
#include "pto/bindings/operator_run.hpp"

namespace pto::bindings {

class SchemaBinder final : public Binder {
 public:
  // `policy` as for ArgumentReader, with adapter(type): whether an adapter takes the call.
  SchemaBinder(const pto_operator& op, PyObject* policy);
  ~SchemaBinder() override;
  SchemaBinder(const SchemaBinder&) = delete;
  SchemaBinder& operator=(const SchemaBinder&) = delete;

  PyObject* call(const Passed& passed, const char** instead) override;

 private:
  Ref read_targets(PyObject* out, const ArgumentReader& reader, ArgumentReader* outs,
                   OperatorRun* run) const;

  const pto_operator& op_;
  PyObject *policy_, *name_;
  Parameters parameters_;
};

}  // namespace pto::bindings
