// SPDX-License-Identifier: Apache-2.0
// int8 x int8 -> int32 in the accumulator, stored as int8: a scale for each column from a Scaling
// tile, or one for all.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <pto/common/fixpipe.hpp>
#include <pto/pto-inst.hpp>

using namespace pto;

namespace {

constexpr int M = 32, K = 64, N = 32;
using Acc = TileAcc<int32_t, M, N, M, N>;
template <typename T, int Rows, int Cols>
using View = GlobalTensor<T, Shape<1, 1, 1, Rows, Cols>,
                          Stride<Rows * Cols, Rows * Cols, Rows * Cols, Cols, 1>>;
template <typename T, int Rows, int Cols>
using Mat = Tile<TileType::Mat, T, Rows, Cols, BLayout::ColMajor, Rows, Cols, SLayout::RowMajor>;

AICORE void multiply(Acc& acc, __gm__ int8_t* a, __gm__ int8_t* b) {
  View<int8_t, M, K> aView(a);
  View<int8_t, K, N> bView(b);
  Mat<int8_t, M, K> aMat;
  Mat<int8_t, K, N> bMat;
  TileLeft<int8_t, M, K, M, K> left;
  TileRight<int8_t, K, N, K, N> right;
  TASSIGN(aMat, 0x0);
  TASSIGN(bMat, 0x4000);
  TASSIGN(left, 0x0);
  TASSIGN(right, 0x0);
  TLOAD(aMat, aView);
  TLOAD(bMat, bView);
  TMOV(left, aMat);
  TMOV(right, bMat);
  TMATMUL(acc, left, right);
}

AICORE void matmulByColumn(__gm__ int8_t* c, __gm__ int8_t* a, __gm__ int8_t* b,
                           __gm__ uint64_t* scale) {
  Acc acc;
  TASSIGN(acc, 0x0);
  multiply(acc, a, b);
  Tile<TileType::Mat, uint64_t, 1, N, BLayout::RowMajor, 1, N> scaleMat;
  Tile<TileType::Scaling, uint64_t, 1, N, BLayout::RowMajor, 1, N> scaleTile;
  TASSIGN(scaleMat, 0x8000);
  TASSIGN(scaleTile, 0x0);
  View<uint64_t, 1, N> scaleView(scale);
  TLOAD(scaleMat, scaleView);
  TMOV(scaleTile, scaleMat);
  View<int8_t, M, N> cView(c);
  TSTORE_FP(cView, acc, scaleTile);
}

AICORE void matmulByOne(__gm__ int8_t* c, __gm__ int8_t* a, __gm__ int8_t* b, uint64_t scale) {
  Acc acc;
  TASSIGN(acc, 0x0);
  multiply(acc, a, b);
  View<int8_t, M, N> cView(c);
  TSTORE<Acc, View<int8_t, M, N>, AtomicType::AtomicNone, ReluPreMode::NormalRelu>(cView, acc,
                                                                                   scale);
}

uint64_t entryOf(float scale) {
  uint32_t bits;
  std::memcpy(&bits, &scale, sizeof(bits));
  return uint64_t(bits) | uint64_t(1) << 46;  // the result is signed
}

struct Case {
  std::vector<int8_t> a = std::vector<int8_t>(M * K), b = std::vector<int8_t>(K * N);
  std::vector<int8_t> c = std::vector<int8_t>(M * N);
  Case() {
    for (int i = 0; i < M * K; ++i) a[i] = static_cast<int8_t>(i % 31 - 15);
    for (int i = 0; i < K * N; ++i) b[i] = static_cast<int8_t>(i % 17 - 8);
  }
  int wanted(int row, int col, float scale) const {
    int sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
    const double rounded = std::nearbyint(double(sum) * scale);
    return int(rounded < -128 ? -128 : rounded > 127 ? 127 : rounded);
  }
};

}  // namespace

TEST(QuantisedMatmul, scales_each_column) {
  Case x;
  std::vector<uint64_t> scale(N);
  for (int j = 0; j < N; ++j) scale[j] = entryOf(0.125f * (1 + j % 4));
  matmulByColumn(x.c.data(), x.a.data(), x.b.data(), scale.data());
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      ASSERT_EQ(x.c[i * N + j], x.wanted(i, j, 0.125f * (1 + j % 4))) << i << ", " << j;
}

TEST(QuantisedMatmul, clips_negative_sums_by_relu) {
  Case x;
  matmulByOne(x.c.data(), x.a.data(), x.b.data(), entryOf(0.25f));
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      ASSERT_EQ(x.c[i * N + j], std::max(x.wanted(i, j, 0.25f), 0)) << i << ", " << j;
}
