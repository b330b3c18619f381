// SPDX-License-Identifier: Apache-2.0
// Chooses the loops of attention by the abilities of the CPU.
#include "pto/isa/cpu/attention_job.hpp"
#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/loops.hpp"

namespace {

// Returns null where the CPU lacks the wanted engine.
const pto::AttentionLoops* loops_of(const pto_attention_job& job) {
  switch (pto::engine_of_attention(job.engine, job.type)) {
    case PTO_MATMUL_BEST:
      return nullptr;
    case PTO_MATMUL_PORTABLE:
      return &pto::kAttentionPortable;
    case PTO_MATMUL_AVX2:
      return &pto::kAttentionAvx2;
    case PTO_MATMUL_AVX512_BF16:
      return &pto::kAttentionPairs;
    case PTO_MATMUL_AMX:
      return &pto::kAttentionTiles;
    default:
      return &pto::kAttentionAvx512;
  }
}

}  // namespace

size_t pto_attention_bytes(const pto_attention_job* job) {
  const pto::AttentionLoops* const loops = loops_of(*job);
  return loops ? loops->bytes(*job) : 0;
}

int32_t pto_attention_rows(const pto_attention_job* job) {
  const pto::AttentionLoops* const loops = loops_of(*job);
  return loops ? loops->rows(*job) : 0;
}

int32_t pto_attention(const pto_attention_job* job) {
  const pto::AttentionLoops* const loops = loops_of(*job);
  if (!loops) return 1;
  loops->run(*job);
  return 0;
}

size_t pto_attention_gradients_bytes(const pto_attention_gradients* job) {
  const pto::AttentionLoops* const loops = loops_of(job->of);
  return loops ? loops->backward_bytes(*job) : 0;
}

int32_t pto_attention_backward(const pto_attention_gradients* job) {
  const pto::AttentionLoops* const loops = loops_of(job->of);
  if (!loops) return 1;
  loops->run_backward(*job);
  return 0;
}

int32_t pto_attention_add_scores(const pto_attention_gradients* job, int32_t key, float* sums) {
  const pto::AttentionLoops* const loops = loops_of(job->of);
  if (!loops) return 1;
  loops->add_scores(*job, key, sums);
  return 0;
}
