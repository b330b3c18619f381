// SPDX-License-Identifier: Apache-2.0
// Matrix products of narrow floats with a scale for each 32 of K: two numbers a byte in memory, and
// a vector that is padded further than the other operands.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <pto/common/constants.hpp>
#include <pto/cpu/MXTypes.hpp>
#include <pto/pto-inst.hpp>

using namespace pto;

namespace {

template <typename T, int Rows, int Cols>
using View = GlobalTensor<T, Shape<1, 1, 1, Rows, Cols>,
                          Stride<Rows * Cols, Rows * Cols, Rows * Cols, Cols, 1>>;
using Scale = float8_e8m0_t;
template <typename T, int Rows, int Cols, int M, int N>
using Mat = Tile<TileType::Mat, T, Rows, Cols, BLayout::ColMajor, M, N, SLayout::RowMajor>;

template <typename T, int M, int K, int N>
struct Operands {
  static constexpr int kGroups = K / 32, kTwo = IsTwinType<T>() ? 2 : 1;
  std::vector<uint8_t> a = codes(M * K, 3), b = codes(K * N, 7);
  std::vector<uint8_t> aScale = exponents(M * kGroups), bScale = exponents(kGroups * N);
  std::vector<float> c = std::vector<float>(M * N, 0.0f);

  static float number(int i, int step) { return T(static_cast<float>(i * step % 5 - 2)); }
  static std::vector<uint8_t> codes(int count, int step) {
    std::vector<uint8_t> bytes((count + kTwo - 1) / kTwo, 0);
    for (int i = 0; i < count; ++i)
      bytes[i / kTwo] |= uint8_t(T(number(i, step)).RawData() << (kTwo == 2 ? i % 2 * 4 : 0));
    return bytes;
  }
  static std::vector<uint8_t> exponents(int count) {
    std::vector<uint8_t> bytes(count);
    for (int i = 0; i < count; ++i) bytes[i] = uint8_t(126 + i % 3);
    return bytes;
  }
  float expected(int i, int j) const {
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
      sum += number(i * K + k, 3) * number(k * N + j, 7) *
             std::ldexp(1.0f, aScale[i * kGroups + k / 32] + bScale[k / 32 * N + j] - 254);
    return sum;
  }
  void check() const {
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) EXPECT_EQ(c[i * N + j], expected(i, j)) << i << "," << j;
  }
};

template <typename T, int M, int K, int N, typename Left, typename LeftMat>
AICORE void multiply(Operands<T, M, K, N>& x) {
  constexpr int kRows = 16, kCols = 64, G = K / 32;
  LeftMat aMat;
  Mat<T, K, kCols, K, N> bMat;
  Tile<TileType::Mat, Scale, kRows, G, BLayout::RowMajor, M, G, SLayout::RowMajor, 32> aScaleMat;
  Tile<TileType::Mat, Scale, G, kCols, BLayout::ColMajor, G, N, SLayout::ColMajor, 32> bScaleMat;
  Left a;
  TileRightCompact<T, K, kCols, K, N> b;
  TileLeftScaleCompact<Scale, kRows, G, M, G> aScale;
  TileRightScaleCompact<Scale, G, kCols, G, N> bScale;
  TileAccCompact<float, kRows, kCols, M, N> c;
  TLOAD(aMat, View<T, M, K>(reinterpret_cast<T*>(x.a.data())));
  TLOAD(bMat, View<T, K, N>(reinterpret_cast<T*>(x.b.data())));
  TFILLPAD(bMat, bMat);
  TLOAD(aScaleMat, View<Scale, M, G>(reinterpret_cast<Scale*>(x.aScale.data())));
  TLOAD(bScaleMat, View<Scale, G, N>(reinterpret_cast<Scale*>(x.bScale.data())));
  TEXTRACT(a, aMat, 0, 0);
  TEXTRACT(b, bMat, 0, 0);
  TMOV(aScale, aScaleMat);
  TMOV(bScale, bScaleMat);
  if constexpr (Left::Rows == 1)
    TGEMV_MX(c, a, aScale, b, bScale);
  else
    TMATMUL_MX(c, a, aScale, b, bScale);
  TSTORE(View<float, M, N>(x.c.data()), c);
  x.check();
}

template <typename T, int M, int K, int N>
void checkMatrix() {
  Operands<T, M, K, N> x;
  multiply<T, M, K, N, TileLeft<T, 16, K, M, K>, Mat<T, 16, K, M, K>>(x);
}
template <typename T, int K, int N>
void checkVector() {
  Operands<T, 1, K, N> x;
  multiply<T, 1, K, N, TileLeft<T, 1, 1024, 1, K>,
           Tile<TileType::Mat, T, 1, 1024, BLayout::RowMajor, 1, K>>(x);
}

}  // namespace

TEST(MatmulMx, numbers_of_4_bits_lie_two_to_a_byte) {
  checkMatrix<float4_e2m1x2_t, 16, 64, 64>();
  checkMatrix<float4_e1m2x2_t, 5, 128, 63>();
  checkMatrix<float8_e4m3_t, 15, 64, 62>();
}

TEST(MatmulMx, a_vector_may_be_padded) {
  checkVector<float4_e2m1x2_t, 128, 62>();
  checkVector<float8_e5m2_t, 192, 33>();
}
