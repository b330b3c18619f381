// SPDX-License-Identifier: Apache-2.0
// Asks the CPU and the kernel for their abilities once.
#include "pto/isa/cpu/engine.hpp"

extern "C" {
long syscall(long number, ...);  // of the C library
int pto_matmul_avx512_pairs_are_fast();
}

namespace pto {
namespace {

constexpr uint64_t bits(unsigned first, unsigned last) { return (2ull << last) - (1ull << first); }

void ask_cpu(unsigned leaf, unsigned part, unsigned* registers) {
#if defined(__x86_64__)
  asm volatile("cpuid"
               : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
               : "a"(leaf), "c"(part));
#else
  registers[0] = registers[1] = registers[2] = registers[3] = 0 * (leaf + part);
#endif
}

uint64_t read_saved_states() {
#if defined(__x86_64__)
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
#else
  return 0;
#endif
}

// Linux, Documentation/arch/x86/xstate.rst. The kernel refuses where an alternative signal stack is
// too small for tiles.
bool ask_for_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kArchPrctl = 158, kRequest = 0x1023, kGranted = 0x1022, kTileData = 18;
  if (syscall(kArchPrctl, kRequest, kTileData) != 0) return false;
  uint64_t granted = 0;
  return syscall(kArchPrctl, kGranted, &granted) == 0 && (granted >> kTileData & 1) != 0;
#else
  return false;
#endif
}

constexpr Computer kThis = {ask_cpu, read_saved_states, ask_for_tiles};

// Reads a part of a leaf that the CPU has; else zeros.
struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  Leaf(const Computer& computer, unsigned leaf, unsigned part) {
    unsigned r[4] = {};
    computer.cpuid(0, 0, r);
    if (r[0] < leaf) return;
    computer.cpuid(leaf, part, r);
    eax = r[0], ebx = r[1], ecx = r[2], edx = r[3];
  }
};

int find_engine() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!has_avx2 || !__builtin_cpu_supports("f16c")) return PTO_MATMUL_PORTABLE;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has_avx512) return PTO_MATMUL_AVX2;
  return __builtin_cpu_supports("avx512vnni") ? PTO_MATMUL_AVX512_VNNI : PTO_MATMUL_AVX512;
}

// Asks at the first call, in the first thread that comes; others wait for the answer.
bool may_use_tiles() {
  static const bool may = has_tiles(kThis) && kThis.grant_tiles();
  return may;
}

bool pairs_are_fast() {
  static const bool are = pto_matmul_avx512_pairs_are_fast() != 0;
  return are;
}

const Abilities& abilities_of_this() {
  static const Abilities abilities = {best_engine(), has_pairs(kThis), may_use_tiles,
                                      pairs_are_fast};
  return abilities;
}

// A product of f32 as operators ask for it.
pto_matmul_job job_of_floats() {
  pto_matmul_job job = {};
  job.a.type = job.b.type = PTO_MATMUL_F32;
  job.precision = pto_matmul_precision();
  return job;
}

bool is_byte(int type) { return type == PTO_MATMUL_I8 || type == PTO_MATMUL_U8; }

}  // namespace

int best_engine() {
  static const int best = find_engine();
  return best;
}

bool has_matmul_tiles() {
  static const bool has = has_tiles(kThis);
  return has;
}

bool has_tiles(const Computer& computer) {
  constexpr uint64_t kStates = bits(1, 2) | bits(5, 7) | bits(17, 18);  // AVX, AVX-512, tiles
  constexpr unsigned kSavesStates = 1u << 27, kTypes = 1u << 22 | 1u << 24 | 1u << 25;
  if (!(Leaf(computer, 1, 0).ecx & kSavesStates)) return false;
  if ((computer.saved_states() & kStates) != kStates) return false;
  if ((Leaf(computer, 7, 0).edx & kTypes) != kTypes) return false;
  // Palette 1: 8 tiles of 16 rows of 64 bytes; products of 16 units of depth and 64 bytes.
  if (Leaf(computer, 0x1d, 0).eax < 1) return false;
  const Leaf palette(computer, 0x1d, 1), product(computer, 0x1e, 0);
  return palette.eax == (8192u | 1024u << 16) && palette.ebx == (64u | 8u << 16) &&
         (palette.ecx & 0xffff) == 16 && (product.ebx & 0xff) >= 16 &&
         (product.ebx >> 8 & 0xffff) >= 64;
}

bool has_pairs(const Computer& computer) {
  return Leaf(computer, 7, 0).eax >= 1 && (Leaf(computer, 7, 1).eax & 1u << 5) != 0;
}

int choose_engine(const pto_matmul_job& job, const Abilities& abilities) {
  const int wanted = job.engine, best = abilities.best;
  if (wanted != PTO_MATMUL_BEST && wanted <= PTO_MATMUL_AVX512_VNNI)
    return wanted <= best ? wanted : PTO_MATMUL_BEST;
  const bool is_plain = !job.a_scale.data && !job.b_scale.data && !job.b_patches;
  const bool has_bf16 = is_plain && job.a.type == PTO_MATMUL_BF16 && job.b.type == PTO_MATMUL_BF16;
  // Groups along the columns count in each product: no chain of numbers.
  const bool is_turned = job.b.row_stride != 1 && job.b.col_stride == 1 && !job.packed;
  const bool has_codes =
      is_plain && job.a.type == PTO_MATMUL_BF16 &&
      (job.b.type == PTO_MATMUL_I8 || (job.b.type == PTO_MATMUL_I4X2 && !is_turned));
  const bool may_split = is_plain && job.a.type == PTO_MATMUL_F32 && job.b.type == PTO_MATMUL_F32 &&
                         job.precision != PTO_MATMUL_CHAIN;
  const bool may_round = may_split && job.precision == PTO_MATMUL_MEDIUM;
  const bool has_bytes = is_plain && is_byte(job.a.type) && is_byte(job.b.type);
  const bool has_avx512 = best >= PTO_MATMUL_AVX512;
  if (wanted == PTO_MATMUL_AMX && !(has_avx512 && abilities.may_use_tiles()))
    return PTO_MATMUL_BEST;
  if (wanted == PTO_MATMUL_AVX512_BF16 && !(has_avx512 && abilities.has_pairs))
    return PTO_MATMUL_BEST;
  if (wanted != PTO_MATMUL_AVX512_BF16 && (has_bf16 || has_bytes || may_split) && has_avx512 &&
      abilities.may_use_tiles())
    return PTO_MATMUL_AMX;
  if ((has_bf16 || has_codes || may_round) && has_avx512 && abilities.has_pairs &&
      (wanted == PTO_MATMUL_AVX512_BF16 || abilities.pairs_are_fast()))
    return PTO_MATMUL_AVX512_BF16;
  return best;
}

int choose_engine_of_attention(int wanted, int type, const Abilities& abilities) {
  pto_matmul_job product = {};
  product.engine = wanted, product.precision = PTO_MATMUL_CHAIN;
  product.a.type = product.b.type = type;
  const int engine = choose_engine(product, abilities);
  // On tiles an instruction of pairs rounds the weights.
  return engine != PTO_MATMUL_AMX || abilities.has_pairs ? engine : abilities.best;
}

int engine_of(const pto_matmul_job& job) { return choose_engine(job, abilities_of_this()); }

int engine_of_attention(int wanted, int type) {
  return choose_engine_of_attention(wanted, type, abilities_of_this());
}

const char* way_of_floats() {
  const pto_matmul_job job = job_of_floats();
  const int engine = engine_of(job);
  if (engine == PTO_MATMUL_AVX512_BF16) return "rounded to bf16 on AVX512_BF16";
  if (engine != PTO_MATMUL_AMX) return "multiply-adds of f32";
  return job.precision == PTO_MATMUL_HIGHEST ? "three parts of bf16 on AMX"
         : job.precision == PTO_MATMUL_HIGH  ? "two parts of bf16 on AMX"
                                             : "rounded to bf16 on AMX";
}

}  // namespace pto

int32_t pto_matmul_packed_rows(void) {
  const bool has_parts = pto::engine_of(pto::job_of_floats()) == PTO_MATMUL_AMX;
  return has_parts ? PTO_MATMUL_FEW_ROWS + 1 : 1;
}
