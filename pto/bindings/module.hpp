// SPDX-License-Identifier: Apache-2.0
// The parts of the extension module pto._core; the comment of each names its file.
//
//     bind_graph(m);        // in module.cpp, inside NB_MODULE
//
// Thread safety: all functions need Python's lock.
#pragma once

#include <nanobind/nanobind.h>

#include "pto/base/dims.hpp"
#include "pto/base/dtype.hpp"
#include "pto/base/error.hpp"
#include "pto/launch/program.hpp"

namespace pto::bindings {

void bind_graph(nanobind::module_& m);      // graph.cpp: Dim, GraphBuilder, Graph
void bind_interpret(nanobind::module_& m);  // interpret.cpp: interpret() on NumPy arrays
void bind_compile(nanobind::module_& m);    // compile.cpp: compile(), Program
void bind_explain(nanobind::module_& m);    // explain.cpp: explain(), nodes of graphs
void bind_recording(nanobind::module_& m);  // recording.cpp: Recording
void bind_machine(nanobind::module_& m);    // machine.cpp: machine, threads, memory
void bind_callable(nanobind::module_& m);   // callable.cpp: Callable, of @pto.jit and operators
void bind_packages(nanobind::module_& m);   // packages.cpp: seal(), ProgramPackage
void bind_operators(nanobind::module_& m);  // operators.cpp: the operator registry
void bind_operator_shapes(nanobind::module_& m);  // operator_shapes.cpp: shapes of outputs
void bind_tasks(nanobind::module_& m);   // tasks.cpp: compiled sources, runs of the chip engine
void bind_host(nanobind::module_& m);    // host.cpp: the host engine and its Python worker
void bind_traces(nanobind::module_& m);  // traces.cpp: traces, simulated times, advice
void bind_tile_operations(nanobind::module_& m);  // tile_operations.cpp: those in C++

// Sets Python's error indicator to the class of pto/errors.py for this kind of error.
void set_python_error(const Error& error);

// Convert a shape between Dims and Python's tuple of int and Dim.
Dim dim_from(nanobind::handle object);  // an int or a Dim
Dims dims_from(nanobind::handle sequence);
nanobind::tuple tuple_from(const Dims& dims);

// Returns the element type of this name; throws pto::Error, listing the names, for an unknown one.
DType dtype_from(const std::string& name);

// Returns the Python object of a program.
nanobind::object program_object(std::shared_ptr<const Program> program);
std::shared_ptr<const Program> program_from(nanobind::handle object);

}  // namespace pto::bindings
