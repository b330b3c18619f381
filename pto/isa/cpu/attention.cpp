// SPDX-License-Identifier: Apache-2.0
// Chooses the loops of attention by the abilities of the CPU.
#include "pto/isa/cpu/attention_job.hpp"
#include "pto/isa/cpu/engine.hpp"

extern "C" {
#define PTO_LOOPS(target)                                                            \
  void pto_attention_##target(const pto_attention_job* job);                         \
  size_t pto_attention_bytes_##target(const pto_attention_job* job);                 \
  int32_t pto_attention_rows_##target(const pto_attention_job* job);                 \
  void pto_attention_backward_##target(const pto_attention_gradients* job);          \
  size_t pto_attention_gradients_bytes_##target(const pto_attention_gradients* job); \
  void pto_attention_add_scores_##target(const pto_attention_gradients* job, int32_t key, float*);
PTO_LOOPS(portable)
PTO_LOOPS(avx2)
PTO_LOOPS(avx512)
#undef PTO_LOOPS
void pto_attention_avx512_tiles(const pto_attention_job* job);
size_t pto_attention_bytes_avx512_tiles(const pto_attention_job* job);
int32_t pto_attention_rows_avx512_tiles(const pto_attention_job* job);
}

namespace {

struct Loops {
  void (*run)(const pto_attention_job*);
  size_t (*bytes)(const pto_attention_job*);
  int32_t (*rows)(const pto_attention_job*);
  void (*run_backward)(const pto_attention_gradients*);
  size_t (*gradients_bytes)(const pto_attention_gradients*);
  void (*add_scores)(const pto_attention_gradients*, int32_t, float*);
};
#define PTO_LOOPS(target)                                                              \
  {                                                                                    \
    pto_attention_##target, pto_attention_bytes_##target, pto_attention_rows_##target, \
        pto_attention_backward_##target, pto_attention_gradients_bytes_##target,       \
        pto_attention_add_scores_##target                                              \
  }
constexpr Loops kPortable = PTO_LOOPS(portable), kAvx2 = PTO_LOOPS(avx2),
                kAvx512 = PTO_LOOPS(avx512);
#undef PTO_LOOPS
constexpr Loops with_tiles(Loops loops) {
  loops.run = pto_attention_avx512_tiles;
  loops.bytes = pto_attention_bytes_avx512_tiles;
  loops.rows = pto_attention_rows_avx512_tiles;
  return loops;
}
constexpr Loops kOnTiles = with_tiles(kAvx512);

// Returns null where the CPU lacks the wanted engine.
const Loops* loops_of(const pto_attention_job& job) {
  switch (pto::engine_of_attention(job.engine, job.type)) {
    case PTO_MATMUL_BEST:
      return nullptr;
    case PTO_MATMUL_PORTABLE:
      return &kPortable;
    case PTO_MATMUL_AVX2:
      return &kAvx2;
    case PTO_MATMUL_AMX:
      return &kOnTiles;
    default:
      return &kAvx512;
  }
}

}  // namespace

size_t pto_attention_bytes(const pto_attention_job* job) {
  const Loops* const loops = loops_of(*job);
  return loops ? loops->bytes(job) : 0;
}

int32_t pto_attention_rows(const pto_attention_job* job) {
  const Loops* const loops = loops_of(*job);
  return loops ? loops->rows(job) : 0;
}

int32_t pto_attention(const pto_attention_job* job) {
  const Loops* const loops = loops_of(*job);
  if (!loops) return 1;
  loops->run(job);
  return 0;
}

size_t pto_attention_gradients_bytes(const pto_attention_gradients* job) {
  const Loops* const loops = loops_of(job->of);
  return loops ? loops->gradients_bytes(job) : 0;
}

int32_t pto_attention_backward(const pto_attention_gradients* job) {
  const Loops* const loops = loops_of(job->of);
  if (!loops) return 1;
  loops->run_backward(job);
  return 0;
}

int32_t pto_attention_add_scores(const pto_attention_gradients* job, int32_t key, float* sums) {
  const Loops* const loops = loops_of(job->of);
  if (!loops) return 1;
  loops->add_scores(job, key, sums);
  return 0;
}
