// SPDX-License-Identifier: Apache-2.0
// Tile operations: operations of elements that a user defines, nodes `tile` of a graph.
//
//     %2 = tile(%x, %1) {name=softcap} graph softcap(%x: f32[], %c: f32[]) -> (f32[]) { ... }
//     %3 = tile(%x) {name=cube} : f32[s0]       // its C++ text is known by its name
//
// A body says how one element follows from those of the operands. Where it is C++ on tiles, the
// registry here holds the text, and a function with the values by definition.
//
// Invariant: what is registered stays as it is, for as long as the process.
// Thread safety: all functions may be called from any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pto/ir/graph.hpp"

namespace pto {

struct TileCode {
  std::string name;
  std::vector<std::string> parameters;  // of the text, in the order of the operands
  std::string text;   // statements: they fill the tile `dst` from the tiles of the parameters
  Location location;  // of its first line
  std::function<double(DType)> tolerance;  // relative, of compiled code
  // The values of the elements; every x has as many.
  std::function<std::vector<double>(const std::vector<std::vector<double>>& x)> values;
};

// Throws pto::Error where the name is taken.
void register_tile_code(TileCode code);

// Throws pto::Error where the name is unknown.
const TileCode& tile_code(const std::string& name);

// Lists the names of the operations in C++ that a graph and its bodies have, each once.
std::vector<std::string> tile_codes_of(const Graph& graph);

// Records the nodes of a body, on operands of any one shape; returns its result.
Value inline_tile(GraphBuilder& b, const Graph& body, const std::vector<Value>& operands);

}  // namespace pto
