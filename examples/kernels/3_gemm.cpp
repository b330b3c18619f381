// SPDX-License-Identifier: Apache-2.0
// out = gelu(x w + bias): a block makes 128 x 128 outputs, accumulating over the depth 256 at a
// time; bias and activation work on the accumulator before it leaves the tile.
#include "example.hpp"

using namespace pto;

constexpr int kTile = 128, kDepth = 256;
using View = Shape<1, 1, 1, DYNAMIC, DYNAMIC>;
using Steps = Stride<1, 1, 1, DYNAMIC, 1>;

__global__ __aicore__ void GemmGelu(__gm__ float* out, __gm__ const float* x, __gm__ const float* w,
                                    __gm__ const float* bias, uint32_t depth, uint32_t cols) {
  const int tiles = cols / kTile;
  const int row = get_block_idx() / tiles * kTile, col = get_block_idx() % tiles * kTile;
  TileLeft<float, kTile, kDepth> a;
  TileRight<float, kDepth, kTile> b;
  TileAcc<float, kTile, kTile> sum, scaled;
  Tile<TileType::Bias, float, 1, kTile> bias_row;

  TLOAD(bias_row, GlobalTensor(bias + col, kTile));
  for (uint32_t k = 0; k < depth; k += kDepth) {
    TLOAD(a, GlobalTensor<const float, View, Steps>(x + row * depth + k, View(kTile, kDepth),
                                                    Steps(depth)));
    TLOAD(b, GlobalTensor<const float, View, Steps>(w + k * cols + col, View(kDepth, kTile),
                                                    Steps(cols)));
    if (k == 0)
      TMATMUL_BIAS(sum, a, b, bias_row);
    else
      TMATMUL_ACC(sum, a, b);
  }
  TMULS(scaled, sum, 1.702f);  // gelu(v) is about v sigmoid(1.702 v)
  TSIGMOID(scaled, scaled);
  TMUL(sum, sum, scaled);
  TSTORE(GlobalTensor<float, View, Steps>(out + row * cols + col, View(kTile, kTile), Steps(cols)),
         sum);
}

int main() {
  const uint32_t rows = 512, depth = 1024, cols = 512;
  const std::vector<float> x = example::random_floats(rows * depth, 1, 1);
  const std::vector<float> w = example::random_floats(depth * cols, 0.03f, 2);
  const std::vector<float> bias = example::random_floats(cols, 1, 3);
  std::vector<float> out(rows * cols);
  const double taken = example::seconds([&] {
    EXEC_KERNEL_CMD(GemmGelu, rows / kTile * (cols / kTile), out.data(), x.data(), w.data(),
                    bias.data(), depth, cols);
  });

  std::vector<double> want(rows * cols);
  for (uint32_t i = 0; i < rows; ++i) {
    std::vector<double> sum(bias.begin(), bias.end());
    for (uint32_t k = 0; k < depth; ++k)
      for (uint32_t j = 0; j < cols; ++j) sum[j] += double(x[i * depth + k]) * w[k * cols + j];
    for (uint32_t j = 0; j < cols; ++j)
      want[i * cols + j] = sum[j] / (1 + std::exp(-1.702 * sum[j]));
  }
  return example::report("gemm + gelu 512x1024x512", example::error(out, want), 6e-6,
                         2.0 * rows * depth * cols, "GFLOP/s", taken);
}
