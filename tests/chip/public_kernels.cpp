// SPDX-License-Identifier: Apache-2.0
// Kernels of test_runtime_spelling.py, on float32: z = x + y, z = x + c, x = c by blocks, x *= c.
#include <pto/pto-inst.hpp>
using namespace pto;

__global__ __aicore__ void Add(__gm__ const float* x, __gm__ const float* y, __gm__ float* z,
                               int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i];
}
PTO_KERNEL(add, Add)

__global__ __aicore__ void AddConstant(__gm__ const float* x, __gm__ float* z, float c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = x[i] + c;
}
PTO_KERNEL(add_constant, AddConstant)

__global__ __aicore__ void Mark(__gm__ float* x, float c, int64_t n) {
  for (int64_t i = block_idx; i < n; i += block_num) x[i] = c;
}
PTO_KERNEL(mark, Mark)

__global__ __aicore__ void Scale(__gm__ float* x, float c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= c;
}
PTO_KERNEL(scale, Scale)
