// SPDX-License-Identifier: Apache-2.0
// emit(): turns a fused graph into C++ text and the description of the program.
//
//     Emitted e = emit(fuse_regions(graph), {StrideClass::Contiguous});
//     e.text;   // one exported function per region, calling pto/isa
//     e.spec;   // sizes to check, memory to allocate, kernels to launch
//
// It takes graphs as passes/fuse_regions leaves them: inputs, scalars, `fused` nodes, their
// results, and steps. A graph with steps becomes a program, one function that calls its kernels; so
// does one whose hints say into how many tasks a kernel is cut.
// Throws pto::Error for operations that have no compiled form.
//
// Thread safety: pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/codegen/outline.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// The line by which every text includes the instruction set.
inline constexpr std::string_view kKernelInclude =
    "#include \"pto/isa/reduce/region_reductions.hpp\"\n";

inline constexpr std::string_view kProgramInclude = "#include \"pto/isa/program.hpp\"\n";

struct Emitted {
  std::string text;
  ProgramSpec spec;
  Outline outline;
  std::vector<std::string> tile_codes = {};  // operations of users whose C++ is in the text
};

// `strides` has one entry per tensor input; empty means all contiguous. `is_recorded`: as in
// print_program(); a graph without steps has no such form, since the launcher records its kernels.
Emitted emit(const Graph& graph, const std::vector<StrideClass>& strides, bool is_recorded = false);

// Describes what a call of the graph takes and gives, without kernels.
ProgramSpec describe(const Graph& graph, const std::vector<StrideClass>& strides);

// Says whether something stands between the kernels of a fused graph.
bool has_steps(const Graph& graph);

// Throws pto::Error where the size of an output depends on data; takes guards on such sizes out of
// the specification, since a call cannot check them.
void keep_sizes_of_call(const Graph& graph, ProgramSpec* spec);

}  // namespace pto
