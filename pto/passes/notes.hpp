// SPDX-License-Identifier: Apache-2.0
// PassNotes: what a pass tells the pipeline beside its graph.
//
//     PassNotes notes;
//     Graph simple = simplify_algebra(graph, &notes);   // notes.walks: 2, one changed something
//
// Thread safety: plain data.
#pragma once

namespace pto {

struct PassNotes {
  int walks = 0;            // of the graph, or of the body that took most
  bool is_finished = true;  // false where the last walk still changed the graph, or a body in it
};

}  // namespace pto
