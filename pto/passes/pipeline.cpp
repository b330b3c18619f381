// SPDX-License-Identifier: Apache-2.0
#include "pto/passes/pipeline.hpp"

#include <algorithm>

#include "pto/base/clock.hpp"
#include "pto/base/text.hpp"
#include "pto/ir/print.hpp"
#include "pto/ir/verify.hpp"
#include "pto/passes/choose_layout.hpp"
#include "pto/passes/copy_turned.hpp"
#include "pto/passes/fold_constants.hpp"
#include "pto/passes/fuse_regions.hpp"
#include "pto/passes/gather_in_kernels.hpp"
#include "pto/passes/inline_tile_operations.hpp"
#include "pto/passes/interchange_loops.hpp"
#include "pto/passes/join_positions.hpp"
#include "pto/passes/move_broadcast_late.hpp"
#include "pto/passes/move_pads_late.hpp"
#include "pto/passes/move_transpose_late.hpp"
#include "pto/passes/pair_products.hpp"
#include "pto/passes/remove_dead_nodes.hpp"
#include "pto/passes/simplify_algebra.hpp"
#include "pto/passes/skip_fills.hpp"
#include "pto/passes/tile_products.hpp"

namespace pto {
namespace {

// A pass that always ends.
template <Graph (*pass)(const Graph&)>
Graph without_notes(const Graph& graph, PassNotes*) {
  return pass(graph);
}

constexpr Pass kPasses[] = {
    {"inline_tile_operations", inline_tile_operations,
     "first: all others see what operations of users do"},
    {"move_broadcast_late", move_broadcast_late,
     "first of the rewrites: arithmetic on constants becomes arithmetic on scalars, which folding "
     "sees"},
    {"move_transpose_late", move_transpose_late,
     "behind the broadcasts, which are small then, and in front of the algebra, which removes the "
     "reshapes that it leaves"},
    {"move_pads_late", [](const Graph& graph, PassNotes*) { return move_pads_late(graph); },
     "behind the broadcasts, of which it takes parts, and in front of folding, which computes "
     "borders"},
    {"fold_constants", fold_constants, "before the algebra, which looks for 0 and 1"},
    {"simplify_algebra", simplify_algebra, "on folded constants"},
    {"remove_dead_nodes", without_notes<remove_dead_nodes>,
     "last of the rewrites, which leave dead nodes behind"},
    {"join_positions", without_notes<join_positions>,
     "behind the algebra, which joins reshapes; dead nodes would read what is scattered"},
    {"pair_products", without_notes<pair_products>,
     "in front of the cut into kernels, which must change no bit; dead nodes read products too"},
    {"interchange_loops", without_notes<interchange_loops>,
     "in front of the cut into kernels: what was around a loop is in others behind it"},
    {"choose_layout", without_notes<choose_layout>,
     "in front of copy_turned, which copies what is still turned then; behind all that moves "
     "transposes, which would move these again"},
    {"copy_turned", without_notes<copy_turned>,
     "in front of the cut into kernels, behind all that moves or removes transposes"},
    {"skip_fills", without_notes<skip_fills>,
     "in front of the cut into kernels, of which a fill is one, and behind all that changes loops"},
    {"gather_in_kernels", without_notes<gather_in_kernels>,
     "in front of the cut into kernels, whose axes it gives to what they gather"},
    {"fuse_regions", [](const Graph& graph, PassNotes*) { return fuse_regions(graph); },
     "what the rewrites leave is grouped into kernels"},
    {"tile_products", without_notes<tile_products>,
     "last: kernels that read a product run on its tiles"},
};

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses),
                                   [&](const Pass& pass) { return pass.name == name; });
    if (!known)
      fail({"there is no pass " + in_quotes(name),
            "the passes are " + joined(kPasses, ", ", [](const Pass& pass) { return pass.name; }),
            "correct the name, or leave it out"});
  }
}

}  // namespace

const std::span<const Pass> kPipeline = kPasses;

Graph run_pipeline(const Graph& graph, const PipelineOptions& options) {
  check_names(options.disabled);
  Graph now = graph;
  for (const Pass& pass : options.passes) {
    if (std::find(options.disabled.begin(), options.disabled.end(), pass.name) !=
        options.disabled.end())
      continue;
    const int64_t start_ns = now_ns();
    PassNotes notes;
    now = pass.run(now, &notes);
    if (options.timed) options.timed(pass.name, double(now_ns() - start_ns) * 1e-9);
    if (!notes.is_finished && options.unfinished) {
      options.unfinished({"the pass " + std::string(pass.name) + " still changed " +
                              in_quotes(graph.name()) + " in walk " + std::to_string(notes.walks),
                          "its rules should reach a graph that they leave alone; results are "
                          "right, and the kernel may be slower: this is a defect of OpenPTO",
                          "report it with the function"});
    }
    if (options.verify) verify(now);
    if (options.dump) options.dump(pass.name, print(now));
  }
  return now;
}

}  // namespace pto
