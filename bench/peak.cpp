// SPDX-License-Identifier: Apache-2.0
// Ceilings as a shared library, which bench/peak.py loads.
#include "peak.hpp"

extern "C" __attribute__((visibility("default"))) double bench_multiply_adds(int64_t times) {
  for (int64_t i = 0; i < times; ++i) bench::multiply_add_in_registers<float>();
  return bench::kAtOnce<float> * static_cast<double>(times);
}

// Adds all floats up, eight vectors at a time; what is left over does not count.
extern "C" __attribute__((visibility("default"))) float bench_read(const float* from,
                                                                   int64_t count) {
  typedef float V __attribute__((vector_size(32)));
  typedef float Loose __attribute__((vector_size(32), aligned(4)));
  constexpr int kAtOnce = 8, kLanes = 8;
  V sums[kAtOnce] = {};
  for (int64_t i = 0; i + kAtOnce * kLanes <= count; i += kAtOnce * kLanes) {
#pragma GCC unroll 8
    for (int j = 0; j < kAtOnce; ++j)
      sums[j] += *reinterpret_cast<const Loose*>(from + i + j * kLanes);
  }
  float total = 0;
  for (const V& sum : sums) total += sum[0] + sum[kLanes - 1];
  return total;
}
