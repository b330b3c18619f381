// SPDX-License-Identifier: Apache-2.0
// Unlocked and Locked: release Python's lock around work that does not need it, and take it.
//
//     const Unlocked unlocked;             // until the end of the scope
//     const Locked locked;                 // the same on any thread, whether it holds the lock
//     take_python_lock(PyEval_SaveThread());
//
// Invariant: a daemon thread that comes back when Python has ended sleeps until the process ends.
// Python would unwind it, through frames and destructors that hold Python's objects. A thread of a
// framework, which somebody may join, asks python_has_ended() before.
// Thread safety: as Python's.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <cstdint>

namespace pto::bindings {

inline constexpr int64_t kKeepLockBytes = 64 << 10;  // for less work the lock is kept

// Says whether this thread cannot have the lock any more.
inline bool python_has_ended() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool is_ending = Py_IsFinalizing() != 0;
#else
  const bool is_ending = _Py_IsFinalizing() != 0;
#endif
  return !Py_IsInitialized() || (is_ending && PyGILState_Check() == 0);
}

// Calls take(), which takes the lock; sleeps for ever where Python has ended and unwinds the
// thread.
template <class Take>
auto or_sleep(const Take& take) {
  try {
    return take();
  } catch (const abi::__forced_unwind&) {  // must not be left
    for (;;) pause();
  }
}

inline void take_python_lock(PyThreadState* state) {
  or_sleep([state] { PyEval_RestoreThread(state); });
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

class Locked {
 public:
  Locked() : state_(or_sleep([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace pto::bindings
