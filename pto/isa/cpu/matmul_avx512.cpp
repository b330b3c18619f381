// SPDX-License-Identifier: Apache-2.0
// The loops of TMATMUL for CPUs with AVX-512; CMakeLists.txt gives the flags. Those by pairs of
// bf16 and by tiles run only where engine.cpp has found their instructions.
#define PTO_COMPILES_SHARED_LOOPS
#include "pto/isa/cpu/matmul_shared.hpp"
#include "pto/isa/cpu/matmul_types.hpp"
#include "pto/isa/cpu/split_product.hpp"

namespace pto::isa::matmul {
namespace {

constexpr int kSums = 12, kTurns = 256, kSamples = 15;

// Counts the ticks of kSums * kTurns multiply-adds that need not wait for each other.
template <class Dot, int... I>
uint64_t ticks(Indices<I...>) {
  using Sum = typename Dot::Sum;
  Sum sum[kSums] = {};
  Units a = {}, b = {};
  const uint64_t start = __builtin_ia32_rdtsc();
  asm volatile("" : "+v"(a), "+v"(b));
  for (int turn = 0; turn < kTurns; ++turn) ((sum[I] = Dot::add(sum[I], a, b)), ...);
  const Sum all = (sum[I] + ...);
  asm volatile("" : : "v"(all));
  return __builtin_ia32_rdtsc() - start;
}
template <class Dot>
uint64_t ticks() {
  return ticks<Dot>(typename IndicesTo<kSums>::type());
}

}  // namespace
}  // namespace pto::isa::matmul

namespace pto {
namespace {

using namespace isa::matmul;

bool run_pages_in_pairs(const pto_matmul_job& job) {
  return job.a.type == PTO_MATMUL_BF16 && run_apart<Bf16Dot<HardwarePairs>>(job);
}
// Their results are rounded otherwise.
bool run_none(const pto_matmul_job&, const MatmulSteps&) { return false; }
void run_on_tiles(const pto_matmul_job& job) {
  if (job.a.type == PTO_MATMUL_F32)
    run_split<HardwareTiles>(job);
  else
    run_tiles<HardwareTiles>(job);
}

}  // namespace

constexpr MatmulLoops kMatmulAvx512 = kLoops;
constexpr MatmulLoops kMatmulQuads = {[](const pto_matmul_job& job) { run(job, true); }, run_pages,
                                      run_many};
constexpr MatmulLoops kMatmulPairs = {run_pairs<HardwarePairs>, run_pages_in_pairs, run_none};
constexpr MatmulLoops kMatmulTiles = {run_on_tiles, [](const pto_matmul_job&) { return false; },
                                      run_none};

}  // namespace pto

extern "C" {
// An instruction of pairs does twice the work: 1 times the ticks of one of floats on Zen 4, 4 times
// on Sapphire Rapids. The least of some samples is that of a sample that nothing disturbed.
int pto_matmul_avx512_pairs_are_fast() {
  using namespace pto::isa::matmul;
  uint64_t floats = UINT64_MAX, pairs = UINT64_MAX;
  for (int sample = 0; sample < kSamples; ++sample) {
    const uint64_t one = ticks<FloatDot>(), other = ticks<Bf16Dot<HardwarePairs>>();
    floats = one < floats ? one : floats, pairs = other < pairs ? other : pairs;
  }
  return pairs < floats + floats / 2;
}

int64_t pto_matmul_avx512_tiles_bytes(const pto_matmul_job* job) {
  if (job->a.type == PTO_MATMUL_F32) {
    const int parts = pto::isa::matmul::split_parts(job->precision);
    return pto::isa::matmul::split_packed_bytes(parts, job->depth, job->cols);
  }
  const int element_bytes = job->a.type == PTO_MATMUL_BF16 ? 2 : 1;
  return pto::isa::matmul::tile_packed_bytes(element_bytes, job->depth, job->cols);
}
}
