// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of level host, each run as it is.
#include <unistd.h>
#include <cstdlib>
#include <pto/pto-inst.hpp>
#include <stdexcept>
using namespace pto;

__global__ __aicore__ void add(__gm__ float* z, __gm__ const float* x, __gm__ const float* y,
                               int64_t n) {
  for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i];
}

// z[rows, columns] = x[rows, inner] * y[inner, columns]
__global__ __aicore__ void matmul(__gm__ float* z, __gm__ const float* x, __gm__ const float* y,
                                  int64_t rows, int64_t inner, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += x[i * inner + k] * y[k * columns + j];
      z[i * columns + j] = sum;
    }
}

__global__ __aicore__ void relu(__gm__ float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] > 0 ? x[i] : 0;
}

__global__ __aicore__ void throws(__gm__ float*) { throw std::runtime_error("as it was told"); }
__global__ __aicore__ void crashes(__gm__ float*) { abort(); }
__global__ __aicore__ void hangs(__gm__ float*) {
  for (;;) usleep(100'000);
}
__global__ __aicore__ void sleeps(__gm__ float* x, int64_t ms) {
  usleep(useconds_t(ms * 1000));
  x[0] += 1;
}

// Tells the next device, and waits for the one before: `signals` has one for each.
__global__ __aicore__ void meet(__gm__ int32_t* signals, int64_t mine, int64_t next) {
  comm::TNOTIFY(comm::Signal(signals + next), 1, comm::NotifyOp::AtomicAdd);
  comm::TWAIT(comm::Signal(signals + mine), 1, comm::WaitCmp::GE);
}

PTO_KERNEL(add, add)
PTO_KERNEL(matmul, matmul)
PTO_KERNEL(relu, relu)
PTO_KERNEL(throws, throws)
PTO_KERNEL(crashes, crashes)
PTO_KERNEL(hangs, hangs)
PTO_KERNEL(sleeps, sleeps)
PTO_KERNEL(meet, meet)
