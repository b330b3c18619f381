// SPDX-License-Identifier: Apache-2.0
// emit(): turns a fused graph into C++ text and the description of the program.
//
//     Emitted e = emit(fuse_regions(graph), {StrideClass::Contiguous});
//     e.text;   // one exported function per region, calling pto/isa
//     e.spec;   // sizes to check, memory to allocate, kernels to launch
//
// It takes graphs of inputs, scalars, `fused` nodes and their results, as passes/fuse_regions
// leaves them. Throws pto::Error for element types and operations that have no compiled form.
//
// Thread safety: pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// The line by which every text includes the instruction set.
inline constexpr std::string_view kKernelInclude =
    "#include \"pto/isa/reduce/region_reductions.hpp\"\n";

struct Emitted {
  std::string text;
  ProgramSpec spec;
};

// `strides` has one entry per tensor input; empty means all contiguous.
Emitted emit(const Graph& graph, const std::vector<StrideClass>& strides);

}  // namespace pto
