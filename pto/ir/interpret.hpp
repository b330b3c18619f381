// SPDX-License-Identifier: Apache-2.0
// interpret(): the slow definition of every graph, against which everything is tested.
//
//     std::vector<Array> out = interpret(graph, {x, y});       // inputs and scalars in order
//     std::vector<Bounded> may = interpret_with_bounds(graph, {x, y});
//     difference(may[0], compiled) == "";                      // else the first element that is
//     wrong
//
// Invariants: floats evaluate in double and round to the element type after every operation,
// integers in 64 bits that wrap; reductions and matmul fold in order from their identity, in
// double, and round once. A bound is what compiled code may be off: it computes f16 and bf16 chains
// in f32 (rounded at casts and outputs), f32 functions within 2 ULP, f64 ones within 4, sums in any
// order, and may contract a*b+c; an infinite bound allows any value.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "pto/ir/array.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// Throws pto::Error: number, dtypes, ranks and sizes of the inputs, guards, a view outside.
std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs);

struct Bounded {
  Array array;
  std::vector<double> bounds;  // one an element, absolute; of integers and bool 0 or infinity
};
std::vector<Bounded> interpret_with_bounds(const Graph& graph, const std::vector<Array>& inputs);

// The first element of `got` outside the bounds of `want`, with both values; "" where none is.
std::string difference(const Bounded& want, const Array& got);

// The sizes that the inputs give to the symbols s0, s1 ...; checks shapes and guards.
std::vector<int64_t> bind_symbols(const Graph& graph, const std::vector<Array>& inputs);

}  // namespace pto
