// SPDX-License-Identifier: Apache-2.0
// max(a * scale + b, 0) by tiles of which the last is not full, in the types of the public tests.
#include <gtest/gtest.h>

#include <pto/common/constants.hpp>
#include <pto/pto-inst.hpp>

#include "acl/acl.h"

using namespace pto;

template <typename T, int TileRows, int TileCols>
AICORE void scaledSum(__gm__ T __out__* out, __gm__ T __in__* a, __gm__ T __in__* b, T scale,
                      int rows, int cols) {
  using ViewShape = Shape<1, 1, 1, DYNAMIC, DYNAMIC>;
  using ViewStride = Stride<1, 1, DYNAMIC, DYNAMIC, 1>;
  using View = GlobalTensor<T, ViewShape, ViewStride>;
  using VecTile = Tile<TileType::Vec, T, TileRows, TileCols, BLayout::RowMajor, -1, -1>;
  constexpr uint32_t bytes = TileRows * TileCols * sizeof(T);
  for (int r = 0; r < rows; r += TileRows) {
    for (int c = 0; c < cols; c += TileCols) {
      const int height = rows - r < TileRows ? rows - r : TileRows;
      const int width = cols - c < TileCols ? cols - c : TileCols;
      const ViewShape shape(height, width);
      const ViewStride stride(rows * cols, cols);
      View aView(a + r * cols + c, shape, stride);
      View bView(b + r * cols + c, shape, stride);
      View outView(out + r * cols + c, shape, stride);
      VecTile aTile(height, width), bTile(height, width), outTile(height, width);
      TASSIGN(aTile, 0x0);
      TASSIGN(bTile, bytes);
      TASSIGN(outTile, 2 * bytes);
      TLOAD(aTile, aView);
      TLOAD(bTile, bView);
      set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
      wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
      TMULS(aTile, aTile, scale);
      TADD(outTile, aTile, bTile);
      TMAXS(outTile, outTile, static_cast<T>(0));
      set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
      wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
      TSTORE(outView, outTile);
      pipe_barrier(PIPE_ALL);
    }
  }
}

template <typename T, int TileRows, int TileCols>
void LaunchScaledSum(T* out, T* a, T* b, T scale, int rows, int cols, void* stream) {
  (void)stream;
  if constexpr (std::is_same_v<T, aclFloat16>)
    scaledSum<half, TileRows, TileCols>((half*)out, (half*)a, (half*)b, scale, rows, cols);
  else
    scaledSum<T, TileRows, TileCols>(out, a, b, scale, rows, cols);
}

template <typename T>
void check(int rows, int cols) {
  const size_t bytes = sizeof(T) * rows * cols;
  ASSERT_EQ(aclInit(nullptr), ACL_SUCCESS);
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  T *host[3], *device[3];
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(aclrtMallocHost((void**)&host[i], bytes), ACL_SUCCESS);
    ASSERT_EQ(aclrtMalloc((void**)&device[i], bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  for (int i = 0; i < rows * cols; ++i) {
    host[1][i] = static_cast<T>(i % 13 - 6);
    host[2][i] = static_cast<T>(i % 7 - 3);
  }
  for (int i = 1; i < 3; ++i)
    ASSERT_EQ(aclrtMemcpy(device[i], bytes, host[i], bytes, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  LaunchScaledSum<T, 8, 64>(device[0], device[1], device[2], static_cast<T>(2), rows, cols, stream);
  ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemcpy(host[0], bytes, device[0], bytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  for (int i = 0; i < rows * cols; ++i)
    EXPECT_EQ(double(host[0][i]), std::max(2 * (i % 13 - 6) + i % 7 - 3, 0)) << i;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(aclrtFree(device[i]), ACL_SUCCESS);
    EXPECT_EQ(aclrtFreeHost(host[i]), ACL_SUCCESS);
  }
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
}

TEST(Elementwise, sums_whole_and_partial_tiles) {
  check<float>(16, 128);
  check<float>(11, 77);
  check<aclFloat16>(9, 65);
  check<int32_t>(1, 1);
}

// Types of tiles may be written, and a precision before them where the instruction has a choice.
TEST(Elementwise, names_its_tiles_or_its_precision) {
  using Row = Tile<TileType::Vec, float, 1, 64>;
  Row a, b, d, tmp;
  for (int i = 0; i < 64; ++i) a.data()[i] = float(i + 1), b.data()[i] = 2;
  const auto third = [&d] { return d.data()[2]; };
  TSUB<Row, Row, Row>(d, a, b);
  EXPECT_EQ(third(), 1);
  TSUBRELU<Row, Row, Row>(d, b, a);
  EXPECT_EQ(third(), 0);
  TNEG<Row, Row>(d, a);
  EXPECT_EQ(third(), -3);
  TADDS<Row, Row>(d, a, 4);
  EXPECT_EQ(third(), 7);
  TDIV<DivAlgorithm::HIGH_PRECISION>(d, a, b);
  EXPECT_EQ(third(), 1.5f);
  TDIVS<DivAlgorithm::DEFAULT>(d, a, 2);
  EXPECT_EQ(third(), 1.5f);
  TDIVS<DivAlgorithm::HIGH_PRECISION>(d, 6, a);
  EXPECT_EQ(third(), 2);
  TPOW<PowAlgorithm::HIGH_PRECISION, Row, Row, Row>(d, a, b, tmp);
  EXPECT_EQ(third(), 9);
  TREMS<RemAlgorithm::HIGH_PRECISION>(d, a, 2, tmp);
  EXPECT_EQ(third(), 1);
  TRSQRT<RsqrtAlgorithm::HIGH_PRECISION>(d, b, tmp);
  EXPECT_FLOAT_EQ(third(), std::sqrt(0.5f));
  TCOLEXPANDDIV<DivAlgorithm::HIGH_PRECISION>(d, a, b);
  EXPECT_EQ(third(), 1.5f);
}
