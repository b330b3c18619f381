// SPDX-License-Identifier: Apache-2.0
// The precision of the process: one number.
#include "pto/abi/precision.h"

extern "C" char* getenv(const char* name);  // of the C library

namespace {

const char* const kNames[] = {"highest", "high", "medium"};  // from PTO_MATMUL_HIGHEST on

int32_t named_by_environment() {
  const char* const wanted = getenv("PTO_MATMUL_PRECISION");
  const int32_t found = wanted ? pto_matmul_precision_of(wanted) : 0;
  return found != 0 ? found : PTO_MATMUL_HIGHEST;
}

int32_t& precision() {
  static int32_t value = named_by_environment();
  return value;
}

}  // namespace

int32_t pto_matmul_precision(void) { return __atomic_load_n(&precision(), __ATOMIC_RELAXED); }

int32_t pto_set_matmul_precision(const char* name) {
  const int32_t found = pto_matmul_precision_of(name);
  if (found == 0) return 1;
  __atomic_store_n(&precision(), found, __ATOMIC_RELAXED);
  return 0;
}

int32_t pto_matmul_precision_of(const char* name) {
  for (int32_t i = 0; i < 3; ++i)
    if (__builtin_strcmp(name, kNames[i]) == 0) return PTO_MATMUL_HIGHEST + i;
  return 0;
}

const char* pto_matmul_precision_name(int32_t value) {
  return value >= PTO_MATMUL_HIGHEST && value <= PTO_MATMUL_MEDIUM
             ? kNames[value - PTO_MATMUL_HIGHEST]
             : "chain";
}
