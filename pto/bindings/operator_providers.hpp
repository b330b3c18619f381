// SPDX-License-Identifier: Apache-2.0
// Kernels and shapes of operators that are defined in Python: C++ asks, Python traces or infers.
//
// Thread safety: the providers may be called from any thread; they take Python's lock for the
// tracing itself, and compile without it.
#pragma once

#include <nanobind/nanobind.h>

#include "pto/operators/registry.hpp"

namespace pto::bindings {

// What Python gives: trace(index, tensors, attributes) -> Graph, for traced operators;
// infer(index, tensors, attributes) -> ([(dtype, shape) or a list of them], [(a, b, because)]);
// source(index, [dtype]) -> (name, C++ text, function), for operators with a C++ kernel.
// tensors: for each tensor argument (dtype, shape), None or a list; a SymInt attribute is a Dim.
struct OperatorCallbacks {
  nanobind::object trace, infer, source;
};
void set_operator_callbacks(OperatorCallbacks callbacks);

// The graph that `trace` gives.
nanobind::object trace_operator(int index, nanobind::list tensors, nanobind::list attributes);

// The providers that call them: of traced operators, and of one with a C++ kernel.
Providers traced_providers();
Providers native_providers();

// An attribute as Python sees it.
nanobind::object attribute_object(const AttributeValue& value);

}  // namespace pto::bindings
