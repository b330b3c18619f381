// SPDX-License-Identifier: Apache-2.0
// copy_turned(): copies a transpose that a kernel would read across cache lines.
//
//     add(transpose(%x), %y)            becomes
//     add(concat(transpose(%x)), %y)    // a concat of one tensor is its copy
//
// A kernel reads its tensors along the last axis of its result; one whose last axis is another one
// costs it a cache line an element. A copy moves blocks of whole lines. Products and steps read
// transposes as they lie. A reshape that makes other axes of those of a transpose, or of a
// broadcast, reads a copy too. It would make one anyway: this one may lie where the reshape is
// returned.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph copy_turned(const Graph& graph);

}  // namespace pto
