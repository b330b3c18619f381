// SPDX-License-Identifier: Apache-2.0
// pair_products: says which additions take a product without rounding it first.
//
//     Graph paired = pair_products(graph);   // x * y + z prints as add(...) !takes_product=[0]
//
// In:   any graph.
// Out:  an add, sub or sum with the hint `takes_product` computes its operand of that number, a
//   product, and itself with one rounding, on CPUs that can. Only additions of one graph that take
//   it read such a product: it is no value of its own, and belongs to their kernels.
// Cost: two walks of the graph.
//
// The compiler of the kernels joins no products by itself, since what it joins would depend on
// where kernels end.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph pair_products(const Graph& graph);

}  // namespace pto
