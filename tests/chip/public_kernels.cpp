// SPDX-License-Identifier: Apache-2.0
// Kernels of test_runtime_spelling.py, on float32: z = x + y, z = x + c, x = c by blocks, x *= c;
// and those of a mixed task: each vector core leaves a number in its block's row of four, the cube
// core their sum.
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

__global__ __aicore__ void Lane(__gm__ float* x, int64_t) {
  x[4 * get_block_idx() + get_subblockid()] = 10 * get_subblockdim() + get_subblockid();
  ffts_cross_core_sync(PIPE_MTE3, _getFFTSMsg(CV_CORE_SYNC, 3));
}
PTO_KERNEL(lane, Lane)

__global__ __aicore__ void Last(__gm__ float* x, int64_t) {
  wait_flag_dev(3);
  __gm__ float* const row = x + 4 * get_block_idx();
  row[2] = row[0] + row[1];
  row[3] = get_block_num();
}
PTO_KERNEL(last, Last)
