// SPDX-License-Identifier: Apache-2.0
// Kernels on vectors of any length: z = x + y, z = x * y, z = x + c.
#include <pto/pto-inst.hpp>

using namespace pto;

constexpr int kTile = 4096;
using Row = Tile<TileType::Vec, float, 1, kTile, BLayout::RowMajor, 1, -1>;

__global__ __aicore__ void Add(__gm__ float* z, __gm__ const float* x, __gm__ const float* y,
                               int64_t n) {
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = n - i < kTile ? n - i : kTile;
    Row a(count), b(count), c(count);
    TLOAD(a, GlobalTensor(x + i, count));
    TLOAD(b, GlobalTensor(y + i, count));
    TADD(c, a, b);
    TSTORE(GlobalTensor(z + i, count), c);
  }
}
PTO_KERNEL(add, Add)

__global__ __aicore__ void Multiply(__gm__ float* z, __gm__ const float* x, __gm__ const float* y,
                                    int64_t n) {
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = n - i < kTile ? n - i : kTile;
    Row a(count), b(count), c(count);
    TLOAD(a, GlobalTensor(x + i, count));
    TLOAD(b, GlobalTensor(y + i, count));
    TMUL(c, a, b);
    TSTORE(GlobalTensor(z + i, count), c);
  }
}
PTO_KERNEL(multiply, Multiply)

__global__ __aicore__ void AddConstant(__gm__ float* z, __gm__ const float* x, float c, int64_t n) {
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t count = n - i < kTile ? n - i : kTile;
    Row a(count), b(count);
    TLOAD(a, GlobalTensor(x + i, count));
    TADDS(b, a, c);
    TSTORE(GlobalTensor(z + i, count), b);
  }
}
PTO_KERNEL(add_constant, AddConstant)
