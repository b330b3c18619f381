// SPDX-License-Identifier: Apache-2.0
// interruptible(): runs work without Python's lock; Ctrl-C stops it, or a Stop, since Python hands
// signals to its first thread only. running(): runs a program, whose loops Ctrl-C ends.
//
//     return interruptible([&](const auto& stop) { return load(source, stop); });
//     stop.run(job);       // on a thread; stop.set() on another one ends what the job waits for
//     running([&] { call.run(outputs); });
//
// Invariant: where the work ends because Ctrl-C stopped it, Python's handler's exception is raised.
// Thread safety: needs Python's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "pto/bindings/progress.hpp"
#include "pto/bindings/python_lock.hpp"
#include "pto/launch/interruption.hpp"

namespace pto::bindings {

using Raised = std::optional<nanobind::python_error>;

// Lets Python's signal handlers run; says whether one of them has raised.
inline bool has_raised(Raised* raised) {
  const Locked locked;
  if (PyErr_CheckSignals() != 0) raised->emplace();
  return raised->has_value();
}

// Ends interruptible work of the threads that are in run().
class Stop {
 public:
  void set() { is_set_ = true; }

  nanobind::object run(const nanobind::callable& job, const nanobind::args& arguments) {
    struct Scope {
      const Stop* const outer = std::exchange(current_, nullptr);
      ~Scope() { current_ = outer; }
    } scope;
    current_ = this;
    return job(*arguments);
  }

  static bool is_asked() { return current_ != nullptr && current_->is_set_; }

 private:
  inline static thread_local const Stop* current_ = nullptr;

  std::atomic<bool> is_set_{false};
};

template <class Work>
auto interruptible(const Work& work) {
  Raised raised;
  Progress progress;
  const std::function<bool()> stop = [&] {
    const Locked locked;
    progress.tick();
    return has_raised(&raised) || Stop::is_asked();
  };
  try {
    const Unlocked unlocked;
    return work(stop);
  } catch (...) {
    if (!raised) throw;
  }
  throw std::move(*raised);
}

template <class Work>
void running(const Work& work) {
  Raised raised;
  const auto ask = [](void* context) {
    if (PyGILState_Check() != 0) const Unlocked other_threads_run;
    return has_raised(static_cast<Raised*>(context));
  };
  try {
    const ScopedInterruption scope(ask, &raised);
    work();
  } catch (...) {
    if (!raised) throw;
  }
  if (raised) throw std::move(*raised);
}

}  // namespace pto::bindings
