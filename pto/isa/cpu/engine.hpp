// SPDX-License-Identifier: Apache-2.0
// Engine: the best engine of the loops that libpto compiles for several targets.
//
//     const bool has_avx2 = pto::best_engine() >= PTO_MATMUL_AVX2;
//     const int engine = pto::engine_of(job);   // PTO_MATMUL_BEST: the CPU lacks it
//
// Tiles (AMX) need a CPU that has them, an operating system that saves them, and the leave of the
// kernel, for which the first product that wants them asks, once a process. Where any of these
// fails, products run on the other engines.
//
// Thread safety: any thread.
#pragma once
#include "pto/isa/cpu/matmul_job.hpp"

namespace pto {

// The best of the engines up to AVX512_VNNI, which each target's loops have.
int best_engine();

// Tells whether this CPU has tiles. The kernel is not asked and may still refuse.
bool has_matmul_tiles();

// The engine that runs a job.
int engine_of(const pto_matmul_job& job);

// The engine that runs attention of elements of `type` where `wanted` is: PTO_MATMUL_BEST and
// others. Returns PTO_MATMUL_BEST where the CPU lacks it.
int engine_of_attention(int wanted, int type);

// Says how operators multiply f32 at the precision of the process: "three parts of bf16 on AMX".
const char* way_of_floats();

// The computer's answers to what engines ask; tests give their own.
struct Computer {
  void (*cpuid)(unsigned leaf, unsigned part, unsigned* registers);  // eax, ebx, ecx, edx
  uint64_t (*saved_states)();  // XCR0; asked only where the CPU has xgetbv
  bool (*grant_tiles)();       // asks the kernel for its leave
};

// Tells whether the CPU has AMX for bf16 and bytes with the sizes that the loops assume, and the
// operating system saves tiles. Asks the kernel nothing.
bool has_tiles(const Computer& computer);

// Tells whether the CPU has vdpbf16ps, which multiplies pairs of bf16.
bool has_pairs(const Computer& computer);

// Chooses the engine of a job. `best` is that of best_engine(); the functions are asked only for
// jobs that depend on them.
struct Abilities {
  int best;
  bool has_pairs;
  bool (*may_use_tiles)();
  bool (*pairs_are_fast)();  // faster than multiply-adds of f32
};
int choose_engine(const pto_matmul_job& job, const Abilities& abilities);
int choose_engine_of_attention(int wanted, int type, const Abilities& abilities);

}  // namespace pto
