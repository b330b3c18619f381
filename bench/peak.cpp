// SPDX-License-Identifier: Apache-2.0
// The ceiling of products as a shared library, which bench/peak.py loads.
#include "peak.hpp"

extern "C" __attribute__((visibility("default"))) double bench_multiply_adds(int64_t times) {
  for (int64_t i = 0; i < times; ++i) bench::multiply_add_in_registers<float>();
  return bench::kAtOnce<float> * static_cast<double>(times);
}
