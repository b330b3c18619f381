// SPDX-License-Identifier: Apache-2.0
// The precision of the process: one number.
#include "pto/abi/precision.h"

extern "C" char* getenv(const char* name);  // of the C library

namespace {

const char* const kNames[] = {"highest", "high", "medium"};  // from PTO_MATMUL_HIGHEST on

int32_t named_by_environment() {
  const char* const wanted = getenv("PTO_MATMUL_PRECISION");
  for (int32_t i = 0; wanted && i < 3; ++i)
    if (__builtin_strcmp(wanted, kNames[i]) == 0) return PTO_MATMUL_HIGHEST + i;
  return PTO_MATMUL_HIGHEST;
}

int32_t& precision() {
  static int32_t value = named_by_environment();
  return value;
}

}  // namespace

int32_t pto_matmul_precision(void) { return __atomic_load_n(&precision(), __ATOMIC_RELAXED); }

int32_t pto_set_matmul_precision(const char* name) {
  for (int32_t i = 0; i < 3; ++i) {
    if (__builtin_strcmp(name, kNames[i]) != 0) continue;
    __atomic_store_n(&precision(), PTO_MATMUL_HIGHEST + i, __ATOMIC_RELAXED);
    return 0;
  }
  return 1;
}

const char* pto_matmul_precision_name(int32_t value) {
  return value >= PTO_MATMUL_HIGHEST && value <= PTO_MATMUL_MEDIUM
             ? kNames[value - PTO_MATMUL_HIGHEST]
             : "chain";
}
