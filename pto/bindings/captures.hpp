// SPDX-License-Identifier: Apache-2.0
// Captures: the values that a jitted function reads beside its parameters, as part of a call's key.
//
//     uint64_t key = captures.key();              // 0: it captures nothing; equal: nothing changed
//     if (captures.refresh(jit)) key = captures.key();
//
// The places come from Python (language/captures.py): a dict, cell, class or list, and a name or an
// index. A value that is the object of the last call costs one look-up, some 10 ns.
// Invariant: keys are equal where all values are the same constants, compared exactly, or the same
// objects; a key is never used for values of other places.
// Thread safety: needs Python's lock.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace pto::bindings {

class Captures {
 public:
  Captures() = default;
  ~Captures();
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  // The key of the present values, below 2^32.
  uint64_t key();

  // Asks jit.captured() for the places; true where they are others than before. Throws PythonError.
  bool refresh(PyObject* jit);

  int visit(visitproc visit, void* arg) const;

 private:
  using Row = std::vector<PyObject*>;  // owned; null where a name has no value

  uint64_t key_of_changed();

  PyObject* places_ = nullptr;  // a tuple of (owner, name)
  Row read_;                    // scratch, borrowed
  std::vector<Row> rows_;
  uint64_t first_key_ = 1;  // of rows_[0]
  size_t last_ = 0;         // the row of the last call
};

}  // namespace pto::bindings
