// SPDX-License-Identifier: Apache-2.0
// tile_products: runs a product, and the kernels that read it, tile by tile.
//
//     Graph tiled = tile_products(graph);   // of gelu(x @ w + bias): one loop over tiles
//
// In:   a fused graph.
// Out:  for each product by a matrix that only kernels read: a loop whose body multiplies rows by
//       columns of the operands, runs the kernels on that tile, and writes what the graph still
//       needs. The product exists a tile at a time. Tiles write apart, so cores share them.
// Cost: a walk of the graph for each product.
//
// A kernel joins where each of its elements needs one row of the product, or one row and one
// column. Rows alone are cut where it folds columns, as a norm does. Sizes of tiles are size
// expressions: large enough for the product's loops, small enough for the second cache, and eight
// tiles at least where the matrix is large.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph tile_products(const Graph& graph);

}  // namespace pto
