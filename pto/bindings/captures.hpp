// SPDX-License-Identifier: Apache-2.0
// Captures: the values that a jitted function reads beside its parameters, as part of a call's key.
//
//     uint64_t key = captures.key(jit);    // 0: it captures nothing; equal: nothing changed
//     if (captures.refresh(jit)) key = captures.key(jit);
//
// language/captures.py finds the places: a dict, cell, class or list, with a name or an index; or
// an array of few elements, which is compared byte by byte. A value that is the same object as in
// the last call costs one look-up, some 10 ns. Where another object stands on the way to the
// values, the places are searched again.
// Invariant: two keys are equal only if all values are equal constants, compared exactly, or the
// same objects; a key is never used for values of other places.
// Thread safety: needs Python's lock.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "pto/bindings/argument.hpp"

namespace pto::bindings {

class Captures {
 public:
  Captures() = default;
  ~Captures();
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  // Returns the key of the current values, below 2^32. Throws PythonError.
  uint64_t key(PyObject* jit);

  // Asks jit.captured() for the places; returns whether those of values differ from before. Throws
  // PythonError.
  bool refresh(PyObject* jit);

  int visit(visitproc visit, void* arg) const;

 private:
  using Row = std::vector<PyObject*>;  // owned; null where a name has no value

  uint64_t key_of_changed();
  PyObject* bytes_of(size_t place, PyObject* array);

  bool links_changed() const;
  void keep_links(PyObject* links);

  PyObject* places_ = nullptr;  // a tuple of (owner, name)
  PyObject* links_ = nullptr;   // the same, of the objects on the way to the values
  Row linked_;                  // these objects
  Row read_;                    // scratch, borrowed
  std::vector<Ref> bytes_;      // of arrays, each at its place
  std::vector<Row> rows_;
  uint64_t first_key_ = 1;  // of rows_[0]
  size_t last_ = 0;         // the row of the last call
};

}  // namespace pto::bindings
