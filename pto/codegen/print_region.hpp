// SPDX-License-Identifier: Apache-2.0
// print_region(): prints the C++ function of one region.
//
//     CodeWriter writer;
//     RegionText text = print_region(body, {"softmax_0", layouts, scalars, 1}, &writer);
//
// The function walks its share of the region's items: rows where the last axis is reduced, else
// pieces of the last axis. Inside, for_each_tile() of isa/region.hpp runs the region's instructions
// over micro-tiles of 4 vectors, which stay in registers, and over masked tails.
//
// Thread safety: pure function.
#pragma once

#include <string>
#include <vector>

#include "pto/base/program_spec.hpp"
#include "pto/codegen/code_writer.hpp"
#include "pto/codegen/region_plan.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct RegionText {
  Dim items;                 // independent pieces of work
  Dim bytes;                 // compulsory traffic of all items
  std::vector<int> symbols;  // of the sizes that the function takes, ascending
};

// The function takes the body's tensor inputs in order, then its outputs. `scalars[i]` is the place
// of the body's i-th scalar input among the program's `program_scalars` scalars; behind them stand
// items, quantum and the sizes s0, s1 ..., or, for an inner function, which only its program calls,
// those of RegionText::symbols. `layouts` are those of the inputs, and may go on with the outputs';
// `strides` says which strides of these tensors are numbers that are known; others are "".
struct RegionRequest {
  std::string function;
  std::vector<RegionLayout> layouts;
  std::vector<std::vector<std::string>> strides;
  std::vector<int> scalars;
  int program_scalars = 0;
  bool is_inner = false;
};

RegionText print_region(const Graph& body, const RegionRequest& request, CodeWriter* writer);

}  // namespace pto
