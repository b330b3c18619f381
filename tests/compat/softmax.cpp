// SPDX-License-Identifier: Apache-2.0
// The softmax of rows, each core of a launch its own rows.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include <pto/pto-inst.hpp>

using namespace pto;
using namespace std;

template <int Rows, int Cols>
AICORE void softmax(__gm__ float* out, __gm__ float* in) {
  using View = GlobalTensor<float, pto::Shape<1, 1, 1, Rows, Cols>,
                            pto::Stride<Rows * Cols, Rows * Cols, Rows * Cols, Cols, 1>>;
  using Whole = Tile<TileType::Vec, float, Rows, Cols, BLayout::RowMajor, Rows, Cols>;
  using Column = Tile<TileType::Vec, float, Rows, 1, BLayout::ColMajor, Rows, 1>;
  Whole x, shifted, power, tmp;
  Column most, sum;
  size_t address = 0;
  const auto place = [&address](auto& tile) {
    TASSIGN(tile, address);
    address += sizeof(*tile.data()) * remove_reference_t<decltype(tile)>::Numel;
  };
  place(x), place(shifted), place(power), place(tmp), place(most), place(sum);
  View inView(in + get_block_idx() * Rows * Cols), outView(out + get_block_idx() * Rows * Cols);

  Event<Op::TLOAD, Op::TROWMAX> loaded = TLOAD(x, inView);
  TROWMAX(most, x, tmp, loaded);
  TROWEXPANDSUB(shifted, x, most);
  TEXP(power, shifted);
  TROWSUM(sum, power, tmp);
  Event<Op::TROWEXPANDDIV, Op::TSTORE_VEC> done = TROWEXPANDDIV(power, power, sum);
  TSTORE(outView, power, done);
}

TEST(Softmax, every_row_sums_to_one) {
  constexpr int kRows = 16, kCols = 64, kBlocks = 6, kCount = kRows * kCols * kBlocks;
  vector<float> in(kCount), out(kCount, -1);
  mt19937 bits(3);
  normal_distribution<float> normal(0, 3);
  for (float& x : in) x = normal(bits);

  cpu_sim::KernelLaunchOptions options;
  options.kernel_name = "softmax";
  options.explicit_block_count = kBlocks;
  cpu_sim::LaunchKernelMultiCore(options, nullptr,
                                 [&] { softmax<kRows, kCols>(out.data(), in.data()); });

  for (int r = 0; r < kRows * kBlocks; ++r) {
    double sum = 0;
    for (int c = 0; c < kCols; ++c) sum += exp(double(in[r * kCols + c]));
    for (int c = 0; c < kCols; ++c) {
      const double wanted = exp(double(in[r * kCols + c])) / sum;
      ASSERT_NEAR(out[r * kCols + c], wanted, 1e-5 * wanted + 1e-9) << r << ", " << c;
    }
  }
}
