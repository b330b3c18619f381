// SPDX-License-Identifier: Apache-2.0
// Asks the CPU for its abilities once.
#include "pto/isa/cpu/engine.hpp"

namespace pto {
namespace {

int find_engine() {
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!has_avx2 || !__builtin_cpu_supports("f16c")) return PTO_MATMUL_PORTABLE;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has_avx512) return PTO_MATMUL_AVX2;
  return __builtin_cpu_supports("avx512vnni") ? PTO_MATMUL_AVX512_VNNI : PTO_MATMUL_AVX512;
}

}  // namespace

int best_engine() {
  static const int best = find_engine();
  return best;
}

}  // namespace pto
