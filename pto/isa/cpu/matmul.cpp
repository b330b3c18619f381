// SPDX-License-Identifier: Apache-2.0
// Chooses the loops of a matrix product by the abilities of the CPU.
#include "pto/isa/cpu/engine.hpp"
#include "pto/isa/cpu/loops.hpp"
#include "pto/isa/cpu/matmul_job.hpp"

extern "C" int64_t pto_matmul_avx512_tiles_bytes(const pto_matmul_job* job);

namespace {

// Elements of a packed column that lie together, and their bytes.
struct Unit {
  int elements, bytes;
};
Unit unit_of(int type, int engine) {
  switch (type) {
    case PTO_MATMUL_I8:
    case PTO_MATMUL_U8:
      return engine >= PTO_MATMUL_AVX512_VNNI ? Unit{4, 4} : Unit{2, 2};
    case PTO_MATMUL_I16:
      return {2, 4};
    case PTO_MATMUL_BF16:
    case PTO_MATMUL_F32:
      return engine == PTO_MATMUL_AVX512_BF16 ? Unit{2, 4} : Unit{1, 4};
    case PTO_MATMUL_I64:
    case PTO_MATMUL_F64:
      return {1, 8};
    default:
      return {1, 4};
  }
}

// Says whether the columns of a job lie in a packed b as its loops find them: whole panels.
bool fits_packed(const pto_matmul_job& job) {
  if (!job.packed || !job.packed_cols) return true;
  const int64_t first = job.packed_first, end = first + job.cols;
  return first >= 0 && first % 32 == 0 && end <= job.packed_cols &&
         (job.cols % 32 == 0 || end == job.packed_cols);
}

const pto::MatmulLoops& loops_of(int engine) {
  switch (engine) {
    case PTO_MATMUL_PORTABLE:
      return pto::kMatmulPortable;
    case PTO_MATMUL_AVX2:
      return pto::kMatmulAvx2;
    case PTO_MATMUL_AVX512:
      return pto::kMatmulAvx512;
    case PTO_MATMUL_AVX512_VNNI:
      return pto::kMatmulQuads;
    case PTO_MATMUL_AVX512_BF16:
      return pto::kMatmulPairs;
    default:
      return pto::kMatmulTiles;
  }
}

}  // namespace

int64_t pto_matmul_packed_bytes(const pto_matmul_job* job) {
  const int engine = pto::engine_of(*job);
  if (engine == PTO_MATMUL_AMX) return pto_matmul_avx512_tiles_bytes(job) + 32;
  const bool has_bytes = job->a.type == PTO_MATMUL_I8 || job->a.type == PTO_MATMUL_U8;
  if (job->b.type == PTO_MATMUL_I4X2 || (job->b.type == PTO_MATMUL_I8 && !has_bytes)) {
    const int64_t run = job->b.type == PTO_MATMUL_I8 ? 32 : 64;  // matmul_coded.hpp
    return (int64_t(job->depth) + run - 1) / run * 32 * ((int64_t(job->cols) + 31) / 32 * 32) + 32;
  }
  const Unit unit = unit_of(job->b.type, engine);
  const int64_t units = (int64_t(job->depth) + 8 * unit.elements - 1) / (8 * unit.elements) * 8;
  const int64_t cols = (int64_t(job->cols) + 15) / 16 * 16;  // whole groups of columns are written
  const int64_t sums = has_bytes && unit.elements == 4 ? cols * 4 : 0;  // matmul_excess.hpp
  return units * cols * unit.bytes + sums + 32;
}

void pto_copy_pages(pto_pages* pages) {
  pto_runs& runs = pages->runs;
  for (int64_t i = 0; i < runs.count; ++i)
    __builtin_memcpy(static_cast<char*>(pages->copy) + i * runs.bytes, pto_run_at(&runs, i),
                     static_cast<size_t>(runs.bytes));
  runs.count = 0;
}

int32_t pto_matmul_narrow_depth(const pto_matmul_job* job) {
  const int type = job->a.type, engine = pto::engine_of(*job);
  if (type != job->b.type || (type != PTO_MATMUL_F16 && type != PTO_MATMUL_BF16)) return -1;
  if (engine == PTO_MATMUL_BEST) return -1;
  if (engine == PTO_MATMUL_AMX) return 2 * PTO_MATMUL_TILE_BLOCK;
  if (engine == PTO_MATMUL_AVX512_BF16) return 2 * PTO_MATMUL_WIDE_BLOCK;
  return engine < PTO_MATMUL_AVX512 ? PTO_MATMUL_BLOCK : PTO_MATMUL_WIDE_BLOCK;
}

bool pto_matmul_many(const pto_matmul_job* job, int64_t count, int64_t a_step, int64_t b_step,
                     int64_t c_step) {
  const int engine = pto::engine_of(*job);
  return engine != PTO_MATMUL_BEST &&
         loops_of(engine).run_many(*job, {count, a_step, b_step, c_step});
}

int32_t pto_matmul(const pto_matmul_job* job) {
  const int engine = pto::engine_of(*job);
  if (engine == PTO_MATMUL_BEST) return 1;
  if ((job->rows <= 0 && !job->packs) || job->cols <= 0) return 0;
  if (!fits_packed(*job)) return 2;
  const pto::MatmulLoops& loops = loops_of(engine);
  if (job->b_pages && job->b_pages->runs.count > 0) {
    if (loops.run_pages(*job)) return 0;
    pto_copy_pages(job->b_pages);
  }
  loops.run(*job);
  return 0;
}
