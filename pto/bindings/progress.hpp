// SPDX-License-Identifier: Apache-2.0
// Progress: tells people in terminals and notebooks that a compilation takes more than a second.
//
//     Progress progress;
//     while (working) progress.tick();     // with Python's lock
//
// pto/language/progress.py says where it is shown, and how.
// Thread safety: belongs to one thread; needs Python's lock, its end takes it.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

#include "pto/bindings/python_lock.hpp"

namespace pto::bindings {

class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (!is_shown_ || python_has_ended()) return;
    const Locked locked;
    tell(-1);
  }

  void tick() {
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(500);
    is_shown_ = true;
    tell(std::chrono::duration<double>(now - began_).count());
  }

 private:
  using Clock = std::chrono::steady_clock;

  // A negative number ends it. A closed stream, or whatever else fails, is nobody's concern; an
  // interruption, which is no Exception, stays pending.
  static void tell(double seconds) {
    const nanobind::error_scope keep;
    try {
      nanobind::module_::import_("pto.language.progress").attr("tell")(seconds);
    } catch (nanobind::python_error& error) {
      PyErr_Clear();
      if (!error.matches(PyExc_Exception)) PyErr_SetInterrupt();
    }
  }

  const Clock::time_point began_ = Clock::now();
  Clock::time_point next_ = began_ + std::chrono::seconds(1);
  bool is_shown_ = false;
};

}  // namespace pto::bindings
