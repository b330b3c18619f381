// SPDX-License-Identifier: Apache-2.0
// The loops of attention for CPUs with AVX-512; CMakeLists.txt gives the flags. Those on tiles run
// only where engine.cpp has found their instructions.
#include "pto/isa/cpu/attention_target.hpp"
#include "pto/isa/cpu/attention_tiles.hpp"

namespace pto {

constexpr AttentionLoops kAttentionAvx512 = isa::attention::kLoops;
constexpr AttentionLoops kAttentionTiles = {
    isa::attention::run_tiles<isa::matmul::HardwareTiles, isa::matmul::HardwarePairs>,
    isa::attention::tile_bytes,
    isa::attention::tile_rows,
    kAttentionAvx512.run_backward,
    kAttentionAvx512.backward_bytes,
    kAttentionAvx512.add_scores};

}  // namespace pto
