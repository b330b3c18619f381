// SPDX-License-Identifier: Apache-2.0
// Pipeline: the passes in order, as data, and the one loop that runs them.
//
//     Graph ready = run_pipeline(graph, {.disabled = {"fold_constants"}});
//
// Invariant: every pass leaves the interpreter's result bit-equal (within its bounds where the pass
// cuts sums), and keeps inputs, guards and locations. A disabled pass costs speed, never
// correctness, except for inline_tile_operations and fuse_regions: code generation needs both.
// Thread safety: pure functions; the callbacks run on the caller's thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pto/base/error.hpp"
#include "pto/ir/graph.hpp"
#include "pto/passes/notes.hpp"

namespace pto {

struct Pass {
  const char* name;
  Graph (*run)(const Graph&, PassNotes*);  // the notes may be null
  const char* reason;                      // the reason of its place in the order
  bool cuts_sums = false;                  // in parts: within the interpreter's bounds only
};

extern const std::span<const Pass> kPipeline;

// Says in three sentences that a pass did not reach its end.
using UnfinishedPass = std::function<void(const ErrorText&)>;

struct PipelineOptions {
  std::vector<std::string> disabled = {};  // names of passes
  bool verify = true;                      // after each pass
  std::function<void(const std::string& pass, const std::string& text)> dump = {};
  std::function<void(std::string_view pass, double seconds)> timed = {};
  UnfinishedPass unfinished = {};
  std::span<const Pass> passes = kPipeline;
};

// Throws pto::Error: an unknown pass in `disabled`, a graph that a pass does not take or breaks.
Graph run_pipeline(const Graph& graph, const PipelineOptions& options = {});

}  // namespace pto
