// SPDX-License-Identifier: Apache-2.0
// Attention target: all loops of attention for the target that a file is compiled for.
//
//     const AttentionLoops& loops = isa::attention::kLoops;
//
// Thread safety: constants.
#pragma once
#include "pto/isa/cpu/attention_backward.hpp"
#include "pto/isa/cpu/attention_loops.hpp"
#include "pto/isa/cpu/loops.hpp"

PTO_NAMESPACE_BEGIN
namespace attention {

inline constexpr AttentionLoops kLoops = {run,          bytes<Floats<float>>, rows<Floats<float>>,
                                          run_backward, backward_bytes,       add_scores};

}  // namespace attention
PTO_NAMESPACE_END
