// SPDX-License-Identifier: Apache-2.0
// Stands for a kernel of another compiler: z = x + y in steps that a constant blob chooses, through
// a workspace. It includes nothing of pto; only its C symbol and parameters are known to others.
#include <cstdint>

struct Tiling {
  int64_t elements, step;
};

extern "C" void add_custom(const float* x, const float* y, float* z, float* workspace,
                           const Tiling* tiling) {
  for (int64_t i = 0; i < tiling->elements; i += tiling->step) {
    const int64_t left = tiling->elements - i, count = left < tiling->step ? left : tiling->step;
    for (int64_t k = 0; k < count; ++k) workspace[k] = x[i + k];
    for (int64_t k = 0; k < count; ++k) z[i + k] = workspace[k] + y[i + k];
  }
}
