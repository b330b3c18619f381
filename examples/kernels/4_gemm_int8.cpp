// SPDX-License-Identifier: Apache-2.0
// A layer with 8-bit weights: out = float(x w) * scale, a scale for each column. The product is
// exact in 32-bit integers; they become floats once.
#include "example.hpp"

using namespace pto;

constexpr int kTile = 128, kDepth = 512;
using View = Shape<1, 1, 1, DYNAMIC, DYNAMIC>;
using Steps = Stride<1, 1, 1, DYNAMIC, 1>;
// The weights lie transposed: each column's depth is contiguous, as the product reads it.
using Columns = GlobalTensor<const int8_t, View, Stride<1, 1, 1, 1, DYNAMIC>, Layout::DN>;

__global__ __aicore__ void GemmInt8(__gm__ float* out, __gm__ const int8_t* x,
                                    __gm__ const int8_t* w, __gm__ const float* scale,
                                    uint32_t depth, uint32_t cols) {
  const int tiles = cols / kTile;
  const int row = get_block_idx() / tiles * kTile, col = get_block_idx() % tiles * kTile;
  TileLeft<int8_t, kTile, kDepth> a;
  TileRight<int8_t, kDepth, kTile> b;
  TileAcc<int32_t, kTile, kTile> sum;
  TileNz<TileType::Vec, float, kTile, kTile, kTile, kTile, 1024> real;
  Tile<TileType::Vec, float, kTile, kTile> values;
  Tile<TileType::Vec, float, 1, kTile> scales;

  for (uint32_t k = 0; k < depth; k += kDepth) {
    TLOAD(a, GlobalTensor<const int8_t, View, Steps>(x + row * depth + k, View(kTile, kDepth),
                                                     Steps(depth)));
    TLOAD(b, Columns(w + col * depth + k, View(kDepth, kTile), Stride<1, 1, 1, 1, DYNAMIC>(depth)));
    if (k == 0)
      TMATMUL(sum, a, b);
    else
      TMATMUL_ACC(sum, a, b);
  }
  TCVT(real, sum, RoundMode::CAST_RINT);
  TMOV(values, real);
  TLOAD(scales, GlobalTensor(scale + col, kTile));
  TCOLEXPANDMUL(values, values, scales);
  TSTORE(GlobalTensor<float, View, Steps>(out + row * cols + col, View(kTile, kTile), Steps(cols)),
         values);
}

int main() {
  const uint32_t rows = 512, depth = 1024, cols = 512;
  const auto bytes = [](const std::vector<float>& values) {
    std::vector<int8_t> rounded;
    for (const float v : values) rounded.push_back(int8_t(std::fmax(-128.f, std::fmin(127.f, v))));
    return rounded;
  };
  const std::vector<int8_t> x = bytes(example::random_floats(rows * depth, 50, 1));
  const std::vector<int8_t> w = bytes(example::random_floats(depth * cols, 50, 2));
  std::vector<float> scale = example::random_floats(cols, 1e-5f, 3);
  std::vector<float> out(rows * cols);
  const double taken = example::seconds([&] {
    EXEC_KERNEL_CMD(GemmInt8, rows / kTile * (cols / kTile), out.data(), x.data(), w.data(),
                    scale.data(), depth, cols);
  });

  std::vector<double> want(rows * cols);
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t j = 0; j < cols; ++j) {
      int sum = 0;
      for (uint32_t k = 0; k < depth; ++k) sum += int(x[i * depth + k]) * w[j * depth + k];
      want[i * cols + j] = double(sum) * scale[j];
    }
  return example::report("int8 gemm 512x1024x512", example::error(out, want), 1e-6,
                         2.0 * rows * depth * cols, "GOP/s", taken);
}
