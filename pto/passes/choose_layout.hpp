// SPDX-License-Identifier: Apache-2.0
// choose_layout(): computes trees of element-wise operations in the order of axes that needs the
// fewest copies.
//
//     transpose(add(transpose(%x), %y))     becomes
//     add(%x, transpose(%y))                // one copy of a turned tensor, where there were two
//
// Kernels copy a tensor that they read or write with another axis last (copy_turned.hpp). Each
// tensor that a tree reads, and each value that others read of it, asks for the order in which that
// copy falls away. On equal terms a tree stays as it is.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph choose_layout(const Graph& graph);

}  // namespace pto
