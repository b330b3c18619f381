// SPDX-License-Identifier: Apache-2.0
// Python's lock around work that does not need it.
//
//     const Unlocked unlocked;             // until the end of the scope
//     take_python_lock(PyEval_SaveThread());
//
// Invariant: a daemon thread that comes back when Python has ended sleeps until the process ends.
// Python would unwind it, through frames and destructors that hold Python's objects.
// Thread safety: as Python's.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace pto::bindings {

inline void take_python_lock(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {  // must not be left
    for (;;) pause();
  }
}

class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { take_python_lock(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace pto::bindings
