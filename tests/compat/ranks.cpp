// SPDX-License-Identifier: Apache-2.0
// Programs for several ranks, which one process plays one after the other: each has a window of
// memory that its context shows to the others.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include <pto/comm/pto_comm_inst.hpp>
#include <pto/common/cpu_stub.hpp>

using namespace pto;

constexpr int kCount = 256;
using Part = Shape<1, 1, 1, 1, kCount>;
using Steps = Stride<kCount, kCount, kCount, kCount, 1>;
using View = GlobalTensor<int32_t, Part, Steps>;
using Rows = GlobalTensor<int32_t, Shape<1, 1, 1, DYNAMIC, kCount>, Steps>;
using Staging = Tile<TileType::Vec, int32_t, 1, kCount, BLayout::RowMajor, DYNAMIC, DYNAMIC>;

AICORE int32_t* window(__gm__ HcclDeviceContext* context, uint32_t rank) {
  return reinterpret_cast<int32_t*>(context->windowsIn[rank]);
}

// The root doubles what the ranks hold and gives it back to them.
__global__ AICORE void DoubleAll(__gm__ HcclDeviceContext* context, __gm__ int32_t* all, int root) {
  View views[8];
  const int ranks = int(context->rankNum);
  for (int i = 0; i < ranks; ++i) views[i] = View(window(context, i));
  const comm::ParallelGroup<View> group(views, ranks, root);
  Staging ping(1, kCount), pong(1, kCount);
  TASSIGN(ping, 0x0);
  TASSIGN(pong, 0x1000);
  const Rows rows(all, Shape<1, 1, 1, DYNAMIC, kCount>(ranks));
  if (int(context->rankId) != root) return;
  comm::TGATHER(group, rows, ping, pong);
  for (int i = 0; i < ranks * kCount; ++i) all[i] *= 2;
  comm::TSCATTER(group, rows, ping);
  pipe_barrier(PIPE_ALL);
}

TEST(Ranks, gather_and_scatter_by_the_windows_of_their_contexts) {
  SKIP_IF_RANKS_LT(3);
  constexpr int kRanks = 3;
  static_assert(std::is_same_v<HcclDeviceContext, CommDeviceContext>);
  static_assert(kRanks <= HCCL_MAX_RANK_NUM);
  std::vector<int32_t> memory(kRanks * kCount), all(kRanks * kCount);
  std::iota(memory.begin(), memory.end(), 0);
  CommDeviceContext context{};
  context.rankNum = kRanks;
  for (int i = 0; i < kRanks; ++i)
    context.windowsIn[i] = reinterpret_cast<uint64_t>(memory.data() + i * kCount);
  HcclHostBarrier(context.comm, stream);  // neither exists
  for (context.rankId = 0; context.rankId < kRanks; ++context.rankId)
    DoubleAll(&context, all.data(), 1);
  CommMpiBarrier();
  for (int i = 0; i < kRanks * kCount; ++i) ASSERT_EQ(memory[i], 2 * i);
}

int main(int argc, char** argv) {
  if (!CommMpiInit(&argc, &argv)) return 1;
  testing::InitGoogleTest(&argc, argv);
  const int failures = RUN_ALL_TESTS();
  CommMpiFinalize();
  return failures;
}
