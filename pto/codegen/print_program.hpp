// SPDX-License-Identifier: Apache-2.0
// print_program(): prints a graph with steps as C++: kernels, and a function that calls them.
//
//     CodeWriter writer;
//     print_program(fuse_regions(graph), spec, "attend_0", &writer);
//
// The function runs on the caller's thread. Each node becomes a statement, in the order of the
// graph: a kernel or a product runs on all threads where that pays, a loop whose iterations write
// apart from each other runs them side by side, and what stands inside such a loop runs on its
// thread. Names in the text: v<n> a tensor's elements or a number, s<n> a size, i<n> an index.
//
// Thread safety: pure function.
#pragma once

#include <string>

#include "pto/base/program_spec.hpp"
#include "pto/codegen/code_writer.hpp"
#include "pto/codegen/outline.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// `spec` has the program's inputs, scalars and outputs. Sets `replaces` of outputs that may be
// written where an input lies. Returns what the text does. `is_recorded`: each statement tells a
// recording (launch/recording.hpp) when it begins and ends, by the number of its step.
Outline print_program(const Graph& graph, const std::string& function, ProgramSpec* spec,
                      CodeWriter* writer, bool is_recorded = false);

}  // namespace pto
