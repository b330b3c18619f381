// SPDX-License-Identifier: Apache-2.0
// print(): prints a graph as text that parses back.
//
//     print(parse(text)) == text;   // for a text as below
//
// A graph reads, with the user's line behind each node:
// graph softmax(%x: f32[s0, s1]) -> (f32[s0, s1]) {
//   %0 = amax(%x) {axes=[1]} : f32[s0, 1] @ "softmax.py":7
//   %1 = broadcast(%0) : f32[s0, s1] @ "softmax.py":7
//   guard s2 == s0 because "add" @ "softmax.py":9
//   return %1
// }
// Runtime scalars print as `%k: scalar f32`; the bodies of a node print in its line.
//
// Invariant: parse(print(g)) == g, locations included; numbers are exact ("nan", "inf", "-0").
// Thread safety: pure functions.
#pragma once

#include <string>

#include "pto/ir/graph.hpp"

namespace pto {

std::string print(const Graph& graph);

}  // namespace pto
