// SPDX-License-Identifier: Apache-2.0
// A cube core multiplies, a vector core adds a number: TPUSH and TPOP between them. Once each core
// of a launch is both, once threads stand for the cube core and the two vector cores of a block.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <pto/common/fifo.hpp>
#include <pto/pto-inst.hpp>

#include "acl/acl.h"

using namespace pto;

namespace {

constexpr int kSize = 32, kHalf = kSize / 2, kCount = kSize * kSize, kRounds = 5;
using Acc = TileAcc<float, kSize, kSize, kSize, kSize>;
template <typename T, int Rows>
using View = GlobalTensor<T, Shape<1, 1, 1, Rows, kSize>, Stride<1, 1, 1, kSize, 1>>;

template <typename Pipe, TileSplitAxis Split>
AICORE void multiply(Pipe& pipe, __gm__ half* a, __gm__ half* b) {
  using Mat =
      Tile<TileType::Mat, half, kSize, kSize, BLayout::ColMajor, kSize, kSize, SLayout::RowMajor>;
  Mat aMat, bMat;
  TileLeft<half, kSize, kSize, kSize, kSize> left;
  TileRight<half, kSize, kSize, kSize, kSize> right;
  Acc acc;
  TASSIGN(aMat, 0x0);
  TASSIGN(bMat, 0x1000);
  TASSIGN(left, 0x0);
  TASSIGN(right, 0x0);
  TASSIGN(acc, 0x0);
  View<half, kSize> aView(a), bView(b);
  TLOAD(aMat, aView);
  TLOAD(bMat, bView);
  TMOV(left, aMat);
  TMOV(right, bMat);
  TMATMUL(acc, left, right);
  TPUSH<Pipe, Acc, Split>(pipe, acc);
}

template <typename Pipe, TileSplitAxis Split, int Rows>
AICORE void add(Pipe& pipe, __gm__ float* out, float number) {
  using Part = Tile<TileType::Vec, float, Rows, kSize, BLayout::RowMajor, Rows, kSize>;
  Part part;
  TASSIGN(part, 0x8000);
  TPOP<Pipe, Part, Split>(pipe, part);
  TADDS(part, part, number);
  View<float, Rows> view(out + get_subblockid() * Rows * kSize);
  TSTORE(view, part);
  TFREE<Pipe, Split>(pipe);
}

// a and b of all rounds, and what comes out.
struct Case {
  std::vector<half> a, b;
  std::vector<float> out;
  explicit Case(int rounds) : a(rounds * kCount), b(kCount), out(rounds * kCount, -1) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = half(float(i % 5) - 2);
    for (size_t i = 0; i < b.size(); ++i) b[i] = half(float(i % 3) - 1);
  }
  void check(int round, float number) const {
    for (int i = 0; i < kSize; ++i)
      for (int j = 0; j < kSize; ++j) {
        float wanted = number;
        for (int k = 0; k < kSize; ++k)
          wanted += float(a[round * kCount + i * kSize + k]) * float(b[k * kSize + j]);
        ASSERT_EQ(out[round * kCount + i * kSize + j], wanted) << round << ", " << i << ", " << j;
      }
  }
};

}  // namespace

TEST(Pipeline, runs_both_roles_on_each_core_of_a_launch) {
  constexpr int kBlocks = 6;
  using Pipe = TPipe<0, Direction::DIR_C2V, kCount * sizeof(float), 2>;
  constexpr auto kWhole = TileSplitAxis::TILE_NO_SPLIT;
  Case x(kBlocks * kRounds);
  aclrtStream stream = nullptr;
  ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  const cpu_sim::KernelLaunchOptions options{"pipeline", 0, 0, 1, 1, kBlocks, false};
  cpu_sim::LaunchKernelMultiCore(options, stream, [&] {
    Pipe pipe((__gm__ void*)nullptr, 0x0, 0x10000);
    for (int i = 0; i < kRounds; ++i) {
      const int round = int(get_block_idx()) * kRounds + i;
#ifdef __DAV_CUBE__
      multiply<Pipe, kWhole>(pipe, &x.a[round * kCount], x.b.data());
#endif
#ifdef __DAV_VEC__
      add<Pipe, kWhole, kSize>(pipe, &x.out[round * kCount], float(i));
#endif
    }
  });
  ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  for (int round = 0; round < kBlocks * kRounds; ++round) x.check(round, float(round % kRounds));
  EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
}

TEST(Pipeline, splits_tiles_between_the_vector_cores_that_threads_stand_for) {
  using Pipe = TPipe<2, Direction::DIR_C2V, kCount * sizeof(float), 2>;
  constexpr auto kRows = TileSplitAxis::TILE_UP_DOWN;
  Case x(kRounds);
  Pipe::reset_for_cpu_sim();
  std::thread cube([&] {
    cpu_sim::ScopedExecutionContext context(0, 0, 1);
    Pipe pipe((__gm__ void*)nullptr, 0x0, 0x10000);
    for (int i = 0; i < kRounds; ++i) multiply<Pipe, kRows>(pipe, &x.a[i * kCount], x.b.data());
  });
  std::vector<std::thread> vectors;
  for (uint32_t lane = 0; lane < 2; ++lane)
    vectors.emplace_back([&x, lane] {
      cpu_sim::ScopedExecutionContext context(0, lane, 2);
      Pipe pipe((__gm__ void*)nullptr, 0x0, 0x10000);
      for (int i = 0; i < kRounds; ++i) add<Pipe, kRows, kHalf>(pipe, &x.out[i * kCount], float(i));
    });
  cube.join();
  for (std::thread& vector : vectors) vector.join();
  for (int i = 0; i < kRounds; ++i) x.check(i, float(i));
}
