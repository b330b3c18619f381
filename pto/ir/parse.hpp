// SPDX-License-Identifier: Apache-2.0
// parse(): reads the text that print() writes.
//
//     Graph g = parse("graph twice(%x: f32[s0]) -> (f32[s0]) {\n"
//                     "  %0 = add(%x, %x) : f32[s0]\n"
//                     "  return %0\n"
//                     "}\n");
//
// Values may have any name: `%sum = ...`. Text after `#` up to the end of its line is skipped.
//
// Invariant: malformed text gives a pto::Error with line and column, whatever it holds.
// Thread safety: pure function.
#pragma once

#include <string_view>

#include "pto/ir/graph.hpp"

namespace pto {

// Throws pto::Error: syntax, unknown names, types that contradict the operations.
Graph parse(std::string_view text);

}  // namespace pto
