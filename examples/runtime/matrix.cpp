// SPDX-License-Identifier: Apache-2.0
// Kernels on square matrices: z = x y.
#include <pto/pto-inst.hpp>

using namespace pto;

constexpr int kSide = 64;
using Square = Shape<1, 1, 1, kSide, kSide>;
using Rows = Stride<1, 1, 1, kSide, 1>;

__global__ __aicore__ void Matmul(__gm__ float* z, __gm__ const float* x, __gm__ const float* y) {
  TileLeft<float, kSide, kSide> left;
  TileRight<float, kSide, kSide> right;
  TileAcc<float, kSide, kSide> product;
  TLOAD(left, GlobalTensor<const float, Square, Rows>(x));
  TLOAD(right, GlobalTensor<const float, Square, Rows>(y));
  TMATMUL(product, left, right);
  TSTORE(GlobalTensor<float, Square, Rows>(z), product);
}
PTO_KERNEL(matmul, Matmul)
