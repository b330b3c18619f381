// SPDX-License-Identifier: Apache-2.0
// Ceilings: what the cores can do at most, measured by loops that do nothing else.
//
//     const double done = pto_bench_multiply_adds(PTO_BENCH_F32, 100, 1);   // 0: the CPU cannot
//
// Each runs on the process's pool, on at most `threads` threads, the caller included.
// Thread safety: any thread; one launch at a time holds the pool, others run on their own thread.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {  // what is multiplied, and by what instructions
  PTO_BENCH_F32,
  PTO_BENCH_F64,
  PTO_BENCH_I32,
  PTO_BENCH_I64,
  PTO_BENCH_BYTES,       // in quads where the CPU has VNNI, else in pairs of i16
  PTO_BENCH_BF16_PAIRS,  // AVX512_BF16
  PTO_BENCH_BF16_TILES,  // AMX; asks the kernel for its leave, as the first product of bf16 does
  PTO_BENCH_BYTE_TILES
};

// Makes `times` thousand steps of multiply-adds in registers on each thread; returns how many
// multiply-adds that was in all.
double pto_bench_multiply_adds(int32_t kind, int64_t times, int32_t threads);

// Reads memory so many times, each thread a part of it.
void pto_bench_read(const void* from, int64_t bytes, int64_t times, int32_t threads);

// Copies memory so many times, each thread parts of it; with `stream` by stores past the caches.
void pto_bench_copy(void* to, const void* from, int64_t bytes, int64_t times, int32_t stream,
                    int32_t threads);

#ifdef __cplusplus
}
#endif
