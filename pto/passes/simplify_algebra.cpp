// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/simplify_algebra.hpp"

#include "pto/passes/algebra_rules.hpp"
#include "pto/passes/rewrite.hpp"

namespace pto {

Graph simplify_algebra(const Graph& graph, PassNotes* notes) {
  return rewrite(graph, apply_first, notes);
}

}  // namespace pto
