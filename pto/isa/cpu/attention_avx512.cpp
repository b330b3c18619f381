// SPDX-License-Identifier: Apache-2.0
// The loops of attention for CPUs with AVX-512; CMakeLists.txt gives the flags. Those by
// pairs of bf16 and on tiles run only where engine.cpp has found their instructions.
#include "pto/isa/cpu/attention_target.hpp"
#include "pto/isa/cpu/attention_tiles.hpp"

namespace pto {
namespace {

using namespace isa::attention;
using Pairs = PairsOf<isa::matmul::HardwarePairs>;

}  // namespace

constexpr AttentionLoops kAttentionAvx512 = kLoops;
constexpr AttentionLoops kAttentionPairs = {
    [](const pto_attention_job& job) { Attention<Pairs>(job).run(); },
    bytes<Pairs>,
    rows<Pairs>,
    kAttentionAvx512.run_backward,
    kAttentionAvx512.backward_bytes,
    kAttentionAvx512.add_scores};
constexpr AttentionLoops kAttentionTiles = {
    run_tiles<isa::matmul::HardwareTiles, isa::matmul::HardwarePairs>,
    tile_bytes,
    tile_rows,
    kAttentionAvx512.run_backward,
    kAttentionAvx512.backward_bytes,
    kAttentionAvx512.add_scores};

}  // namespace pto
