// SPDX-License-Identifier: Apache-2.0
// C = A B + bias by the matrix path: TLOAD to Mat, TMOV or TEXTRACT to Left and Right, TMATMUL to
// Acc, TSTORE.
#include <gtest/gtest.h>

#include <vector>

#include <pto/common/pto_tile.hpp>
#include <pto/pto-inst.hpp>

using namespace pto;

template <typename In, int M, int K, int N, int BaseK>
AICORE inline void matmul(__gm__ float* c, __gm__ In* a, __gm__ In* b, __gm__ float* bias) {
#if defined(__DAV_CUBE__)
  using AView = GlobalTensor<In, Shape<1, 1, 1, M, BaseK>, Stride<M * K, M * K, M * K, K, 1>>;
  using BView = GlobalTensor<In, Shape<1, 1, 1, BaseK, N>, Stride<K * N, K * N, K * N, N, 1>>;
  using BiasView = GlobalTensor<float, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
  using CView = GlobalTensor<float, Shape<1, 1, 1, M, N>, Stride<M * N, M * N, M * N, N, 1>>;
  using AMat = Tile<TileType::Mat, In, M, BaseK, BLayout::ColMajor, M, BaseK, SLayout::RowMajor>;
  using BMat = Tile<TileType::Mat, In, BaseK, N, BLayout::ColMajor, BaseK, N, SLayout::RowMajor>;
  using BiasMat = Tile<TileType::Mat, float, 1, N, BLayout::RowMajor, 1, N>;
  AMat aMat;
  BMat bMat;
  BiasMat biasMat;
  TASSIGN(aMat, 0x0);
  TASSIGN(bMat, 0x20000);
  TASSIGN(biasMat, 0x40000);
  TileLeft<In, M, BaseK, M, BaseK> left;
  TileRight<In, BaseK, N, BaseK, N> right;
  TileAcc<float, M, N, M, N> acc;
  Tile<TileType::Bias, float, 1, N, BLayout::RowMajor, 1, N> biasTile;
  TASSIGN(left, 0x0);
  TASSIGN(right, 0x0);
  TASSIGN(acc, 0x0);
  TASSIGN(biasTile, 0x0);

  BiasView biasView(bias);
  TLOAD(biasMat, biasView);
  for (int k = 0; k < K; k += BaseK) {
    AView aView(a + k);
    BView bView(b + k * N);
    TLOAD(aMat, aView);
    TLOAD(bMat, bView);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TMOV(left, aMat);
    TEXTRACT(right, bMat, 0, 0);
    TMOV(biasTile, biasMat);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    if (k == 0)
      TMATMUL_BIAS(acc, left, right, biasTile);
    else
      TMATMUL_ACC(acc, acc, left, right);
    set_flag(PIPE_M, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_MTE2, EVENT_ID0);
  }
  set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  CView cView(c);
  TSTORE<STPhase::Final>(cView, acc);
#endif
}

template <typename In, int M, int K, int N, int BaseK>
void check() {
  std::vector<In> a(M * K), b(K * N);
  std::vector<float> bias(N), c(M * N);
  for (int i = 0; i < M * K; ++i) a[i] = static_cast<In>(i % 5 - 2);
  for (int i = 0; i < K * N; ++i) b[i] = static_cast<In>(i % 7 - 3);
  for (int i = 0; i < N; ++i) bias[i] = 0.5f * i;
  matmul<In, M, K, N, BaseK>(c.data(), a.data(), b.data(), bias.data());
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double wanted = 0.5 * j;
      for (int k = 0; k < K; ++k)
        wanted += double((i * K + k) % 5 - 2) * double((k * N + j) % 7 - 3);
      ASSERT_EQ(c[i * N + j], wanted) << i << ", " << j;
    }
}

TEST(Matmul, sums_the_parts_of_k) {
  check<half, 64, 128, 48, 32>();
  check<bfloat16_t, 32, 64, 32, 64>();
  check<float, 16, 32, 16, 16>();
}
