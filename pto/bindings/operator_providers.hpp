// SPDX-License-Identifier: Apache-2.0
// Kernels and shapes of operators defined in Python: C++ asks, Python traces or infers.
//
//     set_operator_callbacks({trace, infer, source, find});   // Python's functions, once
//     set_providers(traced_providers());
//
// Invariant: tracing holds Python's lock, compilation does not.
// Thread safety: any thread may call the providers.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "pto/operators/registry.hpp"

namespace pto::bindings {

// Python's functions: trace(index, tensors, attributes) -> Graph, for traced operators;
// infer(index, tensors, attributes) -> ([(dtype, shape) or a list of them], [(a, b, because)]);
// source(index, [dtype]) -> (name, C++ text, function), for operators with a C++ kernel. tensors:
// for each tensor argument (dtype, shape), None or a list; a SymInt attribute is a Dim.
// find(key) -> the code that was built ahead for a kernel, as bytes, or None; keep(key, code) gets
// the code of each kernel that is made, for the `targets`, and may be None.
struct OperatorCallbacks {
  nanobind::object trace, infer, source, find;
  nanobind::object keep = nanobind::none();
  std::vector<std::string> targets = {};
};
void set_operator_callbacks(OperatorCallbacks callbacks);
void keep_kernels(nanobind::object keep, std::vector<std::string> targets);

// Returns the graph that `trace` gives.
nanobind::object trace_operator(int index, nanobind::list tensors, nanobind::list attributes);

// Return the providers that call Python: for traced operators, and for those with a C++ kernel.
Providers traced_providers();
Providers native_providers();

// Converts an attribute to Python.
nanobind::object attribute_object(const AttributeValue& value);

}  // namespace pto::bindings
