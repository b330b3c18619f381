// SPDX-License-Identifier: Apache-2.0
// A block of one cube core and two vector cores: the cube core multiplies and pushes each product
// into a pipe; each vector core pops its half of the rows, applies GELU and stores it. The pipe
// holds two products, so that the cores work at the same time.
#include "example.hpp"

using namespace pto;

constexpr int kTile = 64, kSteps = 16;
using Product = TileAcc<float, kTile, kTile>;
using Half = Tile<TileType::Vec, float, kTile / 2, kTile>;
using Pipe = TPipe<0, DIR_C2V, kTile * kTile * sizeof(float), 2>;
using View = GlobalTensor<const float, Shape<1, 1, 1, kTile, kTile>, Stride<1, 1, 1, kTile, 1>>;

// The products of a block: x[i] w, for its kSteps tiles of x.
AICORE void Multiply(__gm__ const float* x, __gm__ const float* w) {
  Pipe pipe(nullptr, 0, 0);
  TileNz<TileType::Mat, float, kTile, kTile> on_chip;
  TileLeft<float, kTile, kTile> left;
  TileRight<float, kTile, kTile> right;
  Product product;
  TLOAD(on_chip, View(w));
  TMOV(right, on_chip);
  for (int i = 0; i < kSteps; ++i) {
    TLOAD(on_chip, View(x + (get_block_idx() * kSteps + i) * kTile * kTile));
    TMOV(left, on_chip);
    TMATMUL(product, left, right);
    TPUSH<Pipe, Product, TILE_UP_DOWN>(pipe, product);
  }
}

// x / (1 + exp(-1.702 x)): GELU's short approximation.
AICORE void Activate(__gm__ float* out) {
  Pipe pipe(nullptr, 0, 0);
  Half half, gate;
  for (int i = 0; i < kSteps; ++i) {
    TPOP<Pipe, Half, TILE_UP_DOWN>(pipe, half);
    TMULS(gate, half, 1.702f);
    TSIGMOID(gate, gate);
    TMUL(half, half, gate);
    const int64_t at = (int64_t(get_block_idx()) * kSteps + i) * kTile * kTile +
                       get_subblockid() * (kTile / 2) * kTile;
    TSTORE(GlobalTensor(out + at, kTile / 2 * kTile), half);
    TFREE<Pipe, TILE_UP_DOWN>(pipe);
  }
}

int main() {
  const int blocks = 8;
  const size_t count = size_t(blocks) * kSteps * kTile * kTile;
  const std::vector<float> x = example::random_floats(count);
  const std::vector<float> w = example::random_floats(kTile * kTile, 0.2f, 2);
  std::vector<float> out(count);
  const double taken = example::seconds([&] {
    run_cores(
        blocks, 2, [&] { Multiply(x.data(), w.data()); }, [&] { Activate(out.data()); });
  });

  std::vector<double> want(count);
  for (size_t row = 0; row < count / kTile; ++row)
    for (int j = 0; j < kTile; ++j) {
      double sum = 0;
      for (int k = 0; k < kTile; ++k) sum += double(x[row * kTile + k]) * w[k * kTile + j];
      want[row * kTile + j] = sum / (1 + std::exp(-1.702 * sum));
    }
  return example::report("cube to vector pipeline, 128 tiles", example::error(out, want), 1e-5,
                         2.0 * double(count) * kTile, "GFLOP/s", taken);
}
