// SPDX-License-Identifier: Apache-2.0
// Softmax over rows: a tile holds 16 rows, reductions give a column, and a column expands over
// rows.
#include "example.hpp"

using namespace pto;

constexpr int kRows = 16, kMostCols = 1024;

__global__ __aicore__ void Softmax(__gm__ float* out, __gm__ const float* x, uint32_t rows,
                                   uint32_t cols) {
  using Rows = Tile<TileType::Vec, float, kRows, kMostCols, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
  using Column = Tile<TileType::Vec, float, kRows, 8, BLayout::RowMajor, DYNAMIC, 1>;
  using View = Shape<1, 1, 1, DYNAMIC, DYNAMIC>;
  using Steps = Stride<1, 1, 1, DYNAMIC, 1>;
  const int per_block = (rows + get_block_num() - 1) / get_block_num();
  const int start = get_block_idx() * per_block, end = min(start + per_block, rows);
  for (int row = start; row < end; row += kRows) {
    const int count = min(kRows, end - row);
    Rows tile(count, cols), tmp(count, cols);
    Column most(count), sum(count);
    TLOAD(tile, GlobalTensor<const float, View, Steps>(x + int64_t(row) * cols, View(count, cols),
                                                       Steps(cols)));
    TROWMAX(most, tile, tmp);
    TROWEXPANDEXPDIF(tile, tile, most);  // exp(x - max)
    TROWSUM(sum, tile, tmp);
    TROWEXPANDDIV(tile, tile, sum);
    TSTORE(
        GlobalTensor<float, View, Steps>(out + int64_t(row) * cols, View(count, cols), Steps(cols)),
        tile);
  }
}

int main() {
  const uint32_t rows = 4099, cols = 1000;  // nothing divides these
  const std::vector<float> x = example::random_floats(size_t(rows) * cols, 3);
  std::vector<float> out(x.size());
  const auto run = [&] { EXEC_KERNEL_CMD(Softmax, 8, out.data(), x.data(), rows, cols); };
  const double taken = example::seconds(run);

  std::vector<double> want(x.size());
  for (uint32_t r = 0; r < rows; ++r) {
    const float* row = x.data() + size_t(r) * cols;
    const double most = *std::max_element(row, row + cols);
    double sum = 0;
    for (uint32_t c = 0; c < cols; ++c) sum += want[size_t(r) * cols + c] = std::exp(row[c] - most);
    for (uint32_t c = 0; c < cols; ++c) want[size_t(r) * cols + c] /= sum;
  }
  const double bytes = 2.0 * double(x.size()) * sizeof(float);
  return example::report("softmax 4099x1000", example::error(out, want), 1e-6, bytes, "GB/s",
                         taken);
}
