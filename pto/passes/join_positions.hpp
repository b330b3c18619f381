// SPDX-License-Identifier: Apache-2.0
// join_positions(): lets positions count over several axes of a tensor, where they count over one
// axis of a reshape that joins these.
//
//     gather(reshape(cache, [pages * page, row]), slots)         becomes
//     gather(cache, slots) over the axes 0 and 1
//     reshape(scatter(reshape(cache, [pages * page, row]), slots, rows), [pages, page, row])
//     scatter(cache, slots, rows) over the axes 0 and 1
//
// A cache whose pages have gaps between them has no such reshape without a copy of all of it.
//
// Thread safety: pure function.
#pragma once

#include "pto/ir/graph.hpp"

namespace pto {

Graph join_positions(const Graph& graph);

}  // namespace pto
