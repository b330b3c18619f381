// SPDX-License-Identifier: Apache-2.0
// interruptible(): runs work without Python's lock, and lets Ctrl-C stop it.
//
//     return interruptible([&](const auto& stop) { return load(source, stop); });
//
// Invariant: where the work ends because Ctrl-C stopped it, Python's handler's exception is raised.
// Thread safety: needs Python's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>

#include "pto/bindings/python_lock.hpp"

namespace pto::bindings {

template <class Work>
auto interruptible(const Work& work) {
  std::optional<nanobind::python_error> raised;
  const std::function<bool()> stop = [&raised] {
    const Locked locked;
    if (PyErr_CheckSignals() != 0) raised.emplace();
    return raised.has_value();
  };
  try {
    const Unlocked unlocked;
    return work(stop);
  } catch (...) {
    if (!raised) throw;
  }
  throw std::move(*raised);
}

}  // namespace pto::bindings
