// SPDX-License-Identifier: Apache-2.0
// Captures: the values that a jitted function reads beside its parameters, as part of a call's key.
//
//     uint64_t key = captures.key(jit);    // 0: it captures nothing; equal: nothing changed
//     if (captures.refresh(jit)) key = captures.key(jit);
//
// language/captures.py finds the places: a dict, cell, class, list, function or object, with a name
// or an index; or an array or container, which is compared byte by byte, or element by element. A
// value that is the same object as in the last call costs one look-up, some 10 ns. Where another
// object stands on the way to the values, the places are searched again. What the function changes
// itself while it is traced is not read.
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

  // Asks jit.captured() for the places, and which of them to leave out; returns whether those of
  // values differ from before. Throws PythonError.
  bool refresh(PyObject* jit);

  int visit(visitproc visit, void* arg) const;

 private:
  using Row = std::vector<PyObject*>;  // owned; null where a name has no value

  uint64_t key_of_changed();
  void read_contents(size_t place, PyObject* jit);
  void leave_out(PyObject* own);

  bool links_changed() const;
  void keep_links(PyObject* links);

  PyObject* places_ = nullptr;  // a tuple of (owner, name)
  PyObject* links_ = nullptr;   // the same, of the objects on the way to the values
  Row linked_;                  // these objects
  Row read_;                    // scratch, borrowed
  std::vector<Ref> contents_;   // of arrays and containers, each at its place
  std::vector<size_t> whole_;   // places of these
  std::vector<bool> left_out_;  // by place
  uint64_t version_ = 0;        // of the places: what is read may run Python, and another thread
  std::vector<Row> rows_;
  uint64_t first_key_ = 1;  // of rows_[0]
  size_t last_ = 0;         // the row of the last call
};

}  // namespace pto::bindings
