// SPDX-License-Identifier: Apache-2.0
// Tests what sources ask of the simulator: cores and blocks, memories, the environment, runtime
// calls that fail, spellings of types.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>
#include <type_traits>

#include <pto/common/debug.h>
#include <pto/comm/comm_types.hpp>
#include <pto/common/buffer_limits.hpp>
#include <pto/common/event.hpp>
#include <pto/common/memory.hpp>
#include <pto/common/type.hpp>
#include <pto/cpu/MXTypes.hpp>
#include <pto/cpu/NPUMemoryModel.hpp>
#include <pto/cpu/tile_offsets.hpp>
#include <pto/pto-inst.hpp>

#include "acl/acl.h"

using namespace std;
using namespace pto;

TEST(Simulator, runs_as_many_blocks_as_the_work_divides_into) {
  ASSERT_EQ(setenv("PTO_CPU_SIM_NUM_CORES", "6", 1), 0);
  cpu_sim::KernelLaunchOptions options;
  EXPECT_EQ(cpu_sim::ResolveActiveCoreCount(0, 4), 4u);
  EXPECT_EQ(cpu_sim::ResolveActiveCoreCount(5, 32, 8), 4u);
  EXPECT_EQ(cpu_sim::ResolveActiveCoreCount(4, ~0u, 3), 1u);
  mutex guard;
  set<pair<int, int>> cores;
  options.total_work_items = 60;
  options.subblocks_per_block = 2;
  cpu_sim::LaunchKernelMultiCore(options, nullptr, [&] {
    const lock_guard<mutex> lock(guard);
    cores.insert({int(get_block_idx()), int(get_subblockid())});
    EXPECT_EQ(get_block_num(), 6u);
    EXPECT_EQ(get_subblockdim(), 2u);
  });
  EXPECT_EQ(cores.size(), 12u);
  ASSERT_EQ(unsetenv("PTO_CPU_SIM_NUM_CORES"), 0);
}

TEST(Simulator, passes_on_what_a_kernel_throws) {
  cpu_sim::KernelLaunchOptions options;
  options.kernel_name = string("refuses");
  EXPECT_ANY_THROW(
      cpu_sim::LaunchKernelMultiCore(options, nullptr, [] { throw runtime_error("no"); }));
}

TEST(Simulator, lets_a_thread_stand_for_a_core) {
  {
    cpu_sim::ScopedExecutionContext context(3, 1, 2);
    EXPECT_EQ(get_block_idx(), 3u);
    EXPECT_EQ(get_subblockid(), 1u);
    EXPECT_EQ(get_subblockdim(), 2u);
  }
  EXPECT_EQ(get_subblockid(), 0u);
  EXPECT_EQ(get_subblockdim(), 1u);
}

TEST(Simulator, binds_tiles_to_its_memories) {
  NPU_MEMORY_INIT(NPUArch::A5);
  auto& memory = NPUMemoryModel::Instance();
  Tile<TileType::Vec, float, 8, 16> first, second;
  TASSIGN(first, 0x0);
  TASSIGN(second, 0x200);
  EXPECT_EQ((void*)first.data(), (void*)memory.GetUBBase());
  EXPECT_EQ(second.data(), first.data() + 128);
  first.data()[GetTileElementOffset<decltype(first)>(1, 2)] = 5;
  EXPECT_EQ(first.GetValue(18), 5);
  NPU_MEMORY_CLEAR();
  EXPECT_EQ(first.GetValue(18), 0);
  NPU_MEMORY_INIT();
  EXPECT_EQ(int(memory.GetArch()), int(NPUArch::A2A3));
}

TEST(Simulator, saturates_quantised_results_where_the_task_says_so) {
  using Acc = TileAcc<float, 16, 16>;
  using Out = Tile<TileType::Mat, pto::half, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor>;
  const uint64_t twice = 0x40000000;  // 2.f
  float got[2];
  thread task([&] {
    Acc acc;
    Out out;
    for (int i = 0; i < 256; ++i) acc.SetElement(i / 16, i % 16, i == 17 ? INFINITY : 3.f);
    TMOV(out, acc, twice);
    got[0] = float(out.GetElement(1, 1));
    cpu_sim::set_task_cookie(uint64_t(1) << 48);
    TMOV(out, acc, twice);
    got[1] = float(out.GetElement(1, 1));
    EXPECT_EQ(float(out.GetElement(1, 2)), 6.f);
    EXPECT_EQ(get_task_cookie(), get_ctrl());
  });
  task.join();
  EXPECT_EQ(got[0], INFINITY);
  EXPECT_EQ(got[1], 65504.f);
  EXPECT_EQ(get_ctrl(), 0u);  // every thread has its own
}

namespace {
uint64_t key_of_state = 0;
void* memory_of_state = nullptr;
void* memory_for_state(uint64_t key, size_t) {
  key_of_state = key;
  return memory_of_state;
}
}  // namespace

TEST(Simulator, takes_the_lane_and_the_memory_of_states_from_another_runtime) {
  using Pipe = TPipe<3, Direction::DIR_V2C, 1024, 2>;
  Pipe::SharedStateStorage memory{};
  memory_of_state = &memory;
  cpu_sim::register_hooks(reinterpret_cast<void*>(+[]() -> uint32_t { return 5; }),
                          reinterpret_cast<void*>(&memory_for_state));
  EXPECT_EQ(get_subblockid(), 5u);
  auto* state = reinterpret_cast<unsigned char*>(&Pipe::GetSharedState());
  EXPECT_EQ(state, memory.payload);
  EXPECT_NE(key_of_state, 0u);
  cpu_sim::register_hooks(nullptr, nullptr);
  EXPECT_EQ(get_subblockid(), 0u);
  EXPECT_NE(reinterpret_cast<unsigned char*>(&Pipe::GetSharedState()), memory.payload);
}

TEST(Simulator, shows_how_far_a_pipe_has_come) {
  using Pipe = TPipe<4, Direction::DIR_V2C, 1024, 2>;
  using Half = Tile<TileType::Vec, float, 4, 8>;
  using Whole = Tile<TileType::Mat, float, 8, 8>;
  Pipe lanes[2] = {{nullptr, 0, 0}, {nullptr, 0, 0}}, cube(nullptr, 0, 0);
  auto& state = Pipe::GetSharedState();
  for (int lane = 0; lane < 2; ++lane) {
    cpu_sim::ScopedExecutionContext context(0, uint32_t(lane), 2);
    Half half;
    TEXPANDS(half, float(lane));
    TPUSH<Pipe, Half, TileSplitAxis::TILE_UP_DOWN>(lanes[lane], half);
    EXPECT_EQ(state.occupied, lane);
    EXPECT_EQ(state.producers_done[0], lane == 0 ? 1u : 0u);
  }
  EXPECT_EQ(state.next_producer_slot, 1);
  Whole whole;
  TPOP<Pipe, Whole, TileSplitAxis::TILE_UP_DOWN>(cube, whole);
  EXPECT_EQ(state.popped_not_freed, 1);
  TFREE<Pipe, TileSplitAxis::TILE_UP_DOWN>(cube);
  const lock_guard<mutex> lock(state.mutex);
  EXPECT_EQ(state.occupied + state.popped_not_freed, 0);
  EXPECT_EQ(state.next_v2c_consumer_slot, 1);
}

TEST(Simulator, answers_runtime_calls_with_codes) {
  EXPECT_EQ(aclInit(nullptr), ACL_SUCCESS);
  int* memory = nullptr;
  ASSERT_EQ(aclrtMalloc((void**)&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  const int numbers[2] = {1, 2};
  EXPECT_EQ(aclrtMemcpy(memory, 8, numbers, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(memory[1], 2);
  EXPECT_NE(aclrtMemcpy(memory, 4, numbers, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemset(memory, 64, 0, 64), ACL_SUCCESS);
  EXPECT_EQ(memory[1], 0);
  EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
}

TEST(Simulator, spells_types_without_a_namespace) {
  static_assert(is_same_v<aclFloat16, ::half> && sizeof(::bfloat16_t) == 2);
  EXPECT_EQ(aclFloat16ToFloat(aclFloatToFloat16(1.5f)), 1.5f);
  static_assert(is_same_v<decltype(-::half()), ::half>);
  EXPECT_EQ(float(-::half(1.5f)), -1.5f);
  EXPECT_EQ(float(-::bfloat16_t(-3.f)), 3.f);
  EXPECT_EQ(double(float8_e5m2_t::FromRaw(0x3c)), 1.0);
  constexpr ::half greatest = numeric_limits<::half>::max();
  EXPECT_EQ(float(greatest), 65504.f);
  EXPECT_EQ((pto::Shape<1, 1, 1, NUM_4, NUM_8>().shape[3]), 4);
  constexpr PadValue minusOne = PadValueCustom(-1.0f);
  static_assert(isCustomPadValue(minusOne) && getCustomPadBits(minusOne) == 0xbf800000u);
}

TEST(Simulator, prints_tiles_to_cout) {
  Tile<TileType::Vec, int32_t, 2, 8, BLayout::RowMajor, 2, 3> tile;
  for (int i = 0; i < 16; ++i) tile.SetValue(i, i);
  ostringstream captured;
  streambuf* old = cout.rdbuf(captured.rdbuf());
  TPRINT(tile);
  cout.rdbuf(old);
  EXPECT_EQ(captured.str(), "TPRINT 2x3\n       0        1        2\n       8        9       10\n");
}
