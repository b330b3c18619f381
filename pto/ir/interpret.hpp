// SPDX-License-Identifier: Apache-2.0
// interpret(): the slow definition of every graph, against which everything is tested.
//
//     std::vector<Array> out = interpret(graph, {x, y});       // inputs and scalars in order
//     std::vector<Bounded> may = interpret_with_bounds(graph, {x, y});
//     difference(may[0], compiled) == "";                      // else the first wrong element
//
// A bound says how far compiled code may be off. Such code computes f16 and bf16 chains in f32
// (rounded at casts and outputs), f32 functions within 2 ULP, f64 ones within 4, sums in any order,
// and may contract a*b+c. An infinite bound allows any value.
//
// Invariant: floats evaluate in double and round to the element type after every operation,
// integers in 64 bits that wrap; reductions and matmul fold in order from their identity, sums of
// more than 128 floats by halves, in double, and round once.
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pto/ir/array.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

// Limits of an interpretation, since a graph may come from anywhere, and one line of it may ask for
// all memory of the machine or run for ever.
struct InterpretLimits {
  int64_t operations = int64_t{1} << 33;  // elements computed, and products of a matmul
  int64_t elements = int64_t{1} << 29;    // in all values at one time, 8 bytes each
  int64_t rounds = int64_t{1} << 18;      // of all loops that run until their values end them
  bool (*interrupted)() = nullptr;        // polled now and then; true ends it with an Error
};

// Throws pto::Error: a graph that breaks a rule of verify(), number, dtypes, ranks and sizes of the
// inputs, guards, a view outside its tensor, more work than the limits.
std::vector<Array> interpret(const Graph& graph, const std::vector<Array>& inputs,
                             const InterpretLimits& limits = {});

struct Bounded {
  Array array;
  std::vector<double> bounds;  // one per element, absolute; 0 or infinity for integers and bool
};
std::vector<Bounded> interpret_with_bounds(const Graph& graph, const std::vector<Array>& inputs,
                                           const InterpretLimits& limits = {});

// Returns the first element of `got` outside the bounds of `want`; both have one type and shape.
std::optional<size_t> first_difference(const Bounded& want, const Array& got);

// Describes the first element of `got` outside the bounds of `want`, with both values; "" without.
std::string difference(const Bounded& want, const Array& got);

// Stands for a size that a `size` node has not defined yet.
constexpr int64_t kUnknownSize = INT64_MIN;

// Returns the sizes that the inputs give to the symbols s0, s1 ...; checks shapes and guards, and
// that each symbol of the graph has a size, or is defined by a node.
std::vector<int64_t> bind_symbols(const Graph& graph, const std::vector<Array>& inputs);

// Throws pto::Error, at the user's line, for the first guard that does not hold; passes over those
// whose sizes are not all known. `seen` shows the first element of which a check is not true.
void check_guards(
    const Graph& graph, const std::vector<int64_t>& symbols,
    const std::function<std::string()>& seen = [] { return ""; });

}  // namespace pto
