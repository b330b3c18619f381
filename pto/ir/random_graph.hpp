// SPDX-License-Identifier: Apache-2.0
// Random graphs: graphs and inputs for law tests.
//
//     Graph g = random_graph(seed);
//     std::vector<Array> x = random_inputs(g, seed);
//     Graph small = shrink(g, [&](const Graph& h) { return fails(h, random_inputs(h, seed)); });
//
// Invariant: everything follows from the seed, the inputs of a shrunk graph too. Symbol s<i + 8k>
// has the same size as s<i> for every k, so that guards hold; sizes are 0, primes and the
// neighbours of vector widths, never 1.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pto/ir/array.hpp"
#include "pto/ir/graph.hpp"

namespace pto {

struct RandomGraphOptions {
  int operations = 12;      // at most
  bool structure = false;   // also transpose, reshape, parts, sizes from values, and loop
  bool exact_only = false;  // operations that are exact on small integers; f32, f64, i32, i64
};

Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

struct RandomInputOptions {
  bool specials = true;  // NaN, infinities, -0, subnormals in some inputs; else small integers only
};

std::vector<Array> random_inputs(const Graph& graph, uint64_t seed,
                                 const RandomInputOptions& options = {});

// Returns a smaller graph for which `fails` still holds: fewer outputs, nodes replaced by inputs,
// the body of a loop or branch alone.
Graph shrink(const Graph& graph, const std::function<bool(const Graph&)>& fails);

// Returns the number of random graphs that a test runs: `quick`, ten times as many for PTO_DEEP=1.
uint64_t random_tests(uint64_t quick = 200);

}  // namespace pto
