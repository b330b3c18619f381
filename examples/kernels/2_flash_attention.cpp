// SPDX-License-Identifier: Apache-2.0
// Attention with an online softmax: a block owns 64 queries and walks over the keys 64 at a time;
// the scores of all keys never exist at once. Each step rescales what was accumulated by
// exp(old maximum - new maximum).
#include "example.hpp"

using namespace pto;

constexpr int kTile = 64, kHead = 64;

template <int Rows, int Cols>
using Matrix = Tile<TileType::Vec, float, Rows, Cols>;
using Column = Tile<TileType::Vec, float, kTile, 8, BLayout::RowMajor, kTile, 1>;
using OnChip = TileNz<TileType::Mat, float, kTile, kTile>;
using RowMajorView =
    GlobalTensor<const float, Shape<1, 1, 1, kTile, kHead>, Stride<1, 1, 1, kHead, 1>>;
// The same memory read as its transpose: rows are the head's elements, columns the keys.
using TransposedView =
    GlobalTensor<const float, Shape<1, 1, 1, kHead, kTile>, Stride<1, 1, 1, 1, kHead>, Layout::DN>;

__global__ __aicore__ void FlashAttention(__gm__ float* out, __gm__ const float* q,
                                          __gm__ const float* k, __gm__ const float* v,
                                          uint32_t length) {
  const int start = get_block_idx() * kTile;
  OnChip q_chip, k_chip, v_chip, p_chip;
  TileLeft<float, kTile, kHead> queries;
  TileRight<float, kHead, kTile> keys, values;
  TileLeft<float, kTile, kTile> weights;
  TileAcc<float, kTile, kTile> product;
  Matrix<kTile, kTile> scores, tmp, part;
  Matrix<kTile, kHead> sum_of_values;
  Column most, most_now, total, total_now, scale;

  TLOAD(q_chip, RowMajorView(q + start * kHead));
  TMOV(queries, q_chip);
  TEXPANDS(most, -1e30f);
  TEXPANDS(total, 0.0f);
  TEXPANDS(sum_of_values, 0.0f);
  for (uint32_t key = 0; key < length; key += kTile) {
    TLOAD(k_chip, TransposedView(k + key * kHead));
    TMOV(keys, k_chip);
    TMATMUL(product, queries, keys);
    TMOV(scores, product);
    TMULS(scores, scores, 0.125f);  // 1 / sqrt(kHead)

    TROWMAX(most_now, scores, tmp);
    TMAX(most_now, most_now, most);
    TEXPDIF(scale, most, most_now);
    TROWEXPANDEXPDIF(scores, scores, most_now);
    TROWSUM(total_now, scores, tmp);
    TMUL(total, total, scale);
    TADD(total, total, total_now);
    TMULS(most, most_now, 1.0f);

    TMOV(p_chip, scores);
    TMOV(weights, p_chip);
    TLOAD(v_chip, RowMajorView(v + key * kHead));
    TMOV(values, v_chip);
    TMATMUL(product, weights, values);
    TMOV(part, product);
    TROWEXPANDMUL(sum_of_values, sum_of_values, scale);
    TADD(sum_of_values, sum_of_values, part);
  }
  TROWEXPANDDIV(sum_of_values, sum_of_values, total);
  TSTORE(GlobalTensor<float, Shape<1, 1, 1, kTile, kHead>, Stride<1, 1, 1, kHead, 1>>(
             out + start * kHead),
         sum_of_values);
}

int main() {
  const uint32_t length = 1024;
  const size_t count = size_t(length) * kHead;
  const std::vector<float> q = example::random_floats(count, 1, 1);
  const std::vector<float> k = example::random_floats(count, 1, 2);
  const std::vector<float> v = example::random_floats(count, 1, 3);
  std::vector<float> out(count);
  const double taken = example::seconds([&] {
    EXEC_KERNEL_CMD(FlashAttention, length / kTile, out.data(), q.data(), k.data(), v.data(),
                    length);
  });

  std::vector<double> want(count, 0);
  for (uint32_t i = 0; i < length; ++i) {
    std::vector<double> weight(length);
    double sum = 0;
    for (uint32_t j = 0; j < length; ++j) {
      double dot = 0;
      for (int d = 0; d < kHead; ++d) dot += double(q[i * kHead + d]) * k[j * kHead + d];
      sum += weight[j] = std::exp(dot / 8);
    }
    for (uint32_t j = 0; j < length; ++j)
      for (int d = 0; d < kHead; ++d) want[i * kHead + d] += weight[j] / sum * v[j * kHead + d];
  }
  const double flops = 4.0 * length * length * kHead;
  return example::report("flash attention 1024x64", example::error(out, want), 2e-6, flops,
                         "GFLOP/s", taken);
}
