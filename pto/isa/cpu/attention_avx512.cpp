// SPDX-License-Identifier: Apache-2.0
// The loops of attention for CPUs with AVX-512; CMakeLists.txt gives the flags. Those on tiles run
// only where engine.cpp has found their instructions.
#include "pto/isa/cpu/attention_backward.hpp"
#include "pto/isa/cpu/attention_loops.hpp"
#include "pto/isa/cpu/attention_tiles.hpp"

extern "C" {
void pto_attention_avx512(const pto_attention_job* job) { pto::isa::attention::run(*job); }
size_t pto_attention_bytes_avx512(const pto_attention_job* job) {
  return pto::isa::attention::bytes(*job);
}
int32_t pto_attention_rows_avx512(const pto_attention_job* job) {
  return pto::isa::attention::rows(*job);
}
void pto_attention_backward_avx512(const pto_attention_gradients* job) {
  pto::isa::attention::run_backward(*job);
}
size_t pto_attention_gradients_bytes_avx512(const pto_attention_gradients* job) {
  return pto::isa::attention::backward_bytes(*job);
}
void pto_attention_add_scores_avx512(const pto_attention_gradients* job, int32_t key, float* sums) {
  pto::isa::attention::add_scores(*job, key, sums);
}

void pto_attention_avx512_tiles(const pto_attention_job* job) {
  using namespace pto::isa;
  attention::run_tiles<matmul::HardwareTiles, matmul::HardwarePairs>(*job);
}
size_t pto_attention_bytes_avx512_tiles(const pto_attention_job* job) {
  return pto::isa::attention::tile_bytes(*job);
}
int32_t pto_attention_rows_avx512_tiles(const pto_attention_job* job) {
  return pto::isa::attention::tile_rows(*job);
}
}
