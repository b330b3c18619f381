// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/comm/comm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "pto/isa/kernel/cores.hpp"
#include "pto/isa/kernel/kernel.hpp"
#include "tests/isa_error.hpp"

namespace pto::comm_test {
using namespace isa;

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRows = 3, kCols = 5, kStride = 8, kRanks = 4;
using View = GlobalTensor<float, Shape<1, 1, 1, kRows, kCols>, Stride<1, 1, 1, kStride, 1>>;
using Stacked =
    GlobalTensor<float, Shape<1, 1, 1, kRanks * kRows, kCols>, Stride<1, 1, 1, kCols, 1>>;
using Stage = Tile<TileType::Vec, float, kRows, 8>;

// Memory of all ranks, one value each, padding -1.
struct Ranks {
  std::vector<std::vector<float>> memory;
  std::vector<View> views;
  Ranks() {
    for (int rank = 0; rank < kRanks; ++rank) {
      memory.emplace_back(kRows * kStride, -1.0f);
      for (int i = 0; i < kRows * kStride; ++i)
        if (i % kStride < kCols) memory.back()[i] = float(100 * rank + i);
    }
    for (auto& of_rank : memory) views.emplace_back(of_rank.data());
  }
  comm::ParallelGroup<View> group(int root = 0) {
    return comm::ParallelGroup<View>::Create(views.data(), kRanks, root);
  }
};

TEST(Comm, put_and_get_copy_the_shape_and_nothing_else) {
  Ranks ranks;
  Stage tile, pong;
  comm::TPUT(ranks.views[1], ranks.views[0], tile);
  EXPECT_EQ(ranks.memory[1], ranks.memory[0]);
  comm::TGET(ranks.views[2], ranks.views[3], tile, pong);
  EXPECT_EQ(ranks.memory[2], ranks.memory[3]);
  ranks.memory[3][6] = 7;
  comm::AsyncSession session;
  const comm::AsyncEvent event = comm::TPUT_ASYNC(ranks.views[0], ranks.views[3], session);
  EXPECT_TRUE(event.Wait(session));
  EXPECT_EQ(ranks.memory[0][4], ranks.memory[3][4]);
  EXPECT_EQ(ranks.memory[0][6], -1);
  EXPECT_TRUE(comm::TGET_ASYNC(ranks.views[0], ranks.views[3], session, 1).Test(session));
  float packed[4] = {1, 2, 3, 4}, out[4] = {};
  comm::TPUT(GlobalTensor(out, 3), GlobalTensor(packed, 4), tile);
  EXPECT_THAT(out, ElementsAre(1, 2, 3, 0));
}

TEST(Comm, a_smaller_view_bounds_what_moves) {
  using Small = GlobalTensor<float, Shape<1, 1, 1, 2, 4>, Stride<1, 1, 1, kStride, 1>>;
  Ranks ranks;
  Stage tile, recv;
  const auto within = [](int i) { return i / kStride < 2 && i % kStride < 4; };
  std::vector<float> small(kRows * kStride, -7);
  comm::TPUT(Small(small.data()), ranks.views[1], tile);
  for (int i = 0; i < kRows * kStride; ++i)
    EXPECT_EQ(small[i], within(i) ? ranks.memory[1][i] : -7) << i;
  comm::TREDUCE(ranks.group(), Small(small.data()), tile, recv, comm::ReduceOp::Sum);
  for (int i = 0; i < kRows * kStride; ++i) EXPECT_EQ(small[i], within(i) ? 600 + 4 * i : -7) << i;

  // A stack of ten rows: three ranks and a row of the last one.
  using Short = GlobalTensor<float, Shape<1, 1, 1, 10, kCols>, Stride<1, 1, 1, kCols, 1>>;
  std::vector<float> stack(kRanks * kRows * kCols, -2);
  comm::TGATHER(ranks.group(), Short(stack.data()), tile);
  EXPECT_EQ(stack[9 * kCols + 4], ranks.memory[3][4]);
  for (size_t i = 10 * kCols; i < stack.size(); ++i) EXPECT_EQ(stack[i], -2) << i;
  Ranks others;
  for (auto& memory : others.memory) std::fill(memory.begin(), memory.end(), -1);
  comm::TSCATTER(others.group(), Short(stack.data()), tile);
  EXPECT_EQ(others.memory[2], ranks.memory[2]);
  EXPECT_EQ(others.memory[3][4], ranks.memory[3][4]);
  EXPECT_EQ(others.memory[3][kStride], -1);
}

TEST(Comm, ranks_add_at_the_same_time) {
  std::vector<float> sum(64);
  std::vector<int16_t> counts(64);
  run_blocks(16, [&] {
    using All = GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 64, 1>>;
    using Counts = GlobalTensor<int16_t, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 64, 1>>;
    Tile<TileType::Vec, float, 1, 64> tile;
    Tile<TileType::Vec, int16_t, 1, 64> short_tile;
    std::vector<float> mine(64, float(get_block_idx()));
    std::vector<int16_t> ones(64, 1);
    for (int i = 0; i < 10; ++i) {
      comm::TPUT<AtomicType::AtomicAdd>(All(sum.data()), All(mine.data()), tile);
      comm::TPUT(Counts(counts.data()), Counts(ones.data()), short_tile, AtomicType::AtomicAdd);
    }
  });
  EXPECT_THAT(sum, Each(1200.0f));
  EXPECT_THAT(counts, Each(160));
}

TEST(Comm, collectives_of_the_root) {
  Ranks ranks;
  Stage tile, recv, pong;
  std::vector<float> all(kRanks * kRows * kCols, -2);
  comm::TGATHER(ranks.group(), Stacked(all.data()), tile);
  for (int rank = 0; rank < kRanks; ++rank)
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c)
        EXPECT_EQ(all[(rank * kRows + r) * kCols + c], ranks.memory[rank][r * kStride + c]);
  Ranks others;
  for (auto& memory : others.memory) std::fill(memory.begin(), memory.end(), -1);
  comm::TSCATTER(others.group(), Stacked(all.data()), tile, pong);
  EXPECT_EQ(others.memory, ranks.memory);

  std::vector<float> out(kRows * kStride, -1);
  comm::TREDUCE(ranks.group(), View(out.data()), tile, recv, comm::ReduceOp::Sum);
  EXPECT_EQ(out[kStride + 2], 600 + 4 * (kStride + 2));
  EXPECT_EQ(out[kCols], -1);
  ranks.memory[2][1] = NAN;
  comm::TREDUCE(ranks.group(), View(out.data()), tile, recv, pong, comm::ReduceOp::Max);
  EXPECT_EQ(out[0], 300);
  EXPECT_TRUE(std::isnan(out[1]));
  comm::TREDUCE(ranks.group(), View(out.data()), tile, recv, comm::ReduceOp::Min);
  EXPECT_EQ(out[2], 2);

  comm::TBROADCAST(others.group(), View(out.data()), tile);
  EXPECT_EQ(others.memory[3][2], 2);
  EXPECT_EQ(others.memory[3][kCols], -1);
}

TEST(Comm, integer_sums_wrap) {
  using Row = GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<8, 8, 8, 8, 1>>;
  int32_t largest[8], ones[8], sums[8];
  std::fill_n(largest, 8, INT32_MAX);
  std::fill_n(ones, 8, 1);
  Row views[] = {Row(largest), Row(ones)};
  Tile<TileType::Vec, int32_t, 1, 8> acc, recv;
  comm::TREDUCE(comm::ParallelGroup<Row>::Create(views, 2, 0), Row(sums), acc, recv,
                comm::ReduceOp::Sum);
  EXPECT_EQ(sums[7], INT32_MIN);
}

TEST(Comm, a_reduction_may_end_in_a_view_of_the_group) {
  Stage tile, recv;
  Ranks ranks;
  std::vector<float> want(kRows * kStride, -1);
  comm::TREDUCE(ranks.group(), View(want.data()), tile, recv, comm::ReduceOp::Sum);
  for (int root = 0; root < kRanks; ++root) {
    Ranks own;
    comm::TREDUCE(own.group(root), own.views[root], tile, recv, comm::ReduceOp::Sum);
    EXPECT_EQ(own.memory[root], want) << root;
  }
  using Flat = GlobalTensor<float, Packed, Packed>;
  float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, c[3] = {100, 200, 300};
  Flat views[3] = {Flat(a, 3), Flat(b, 3), Flat(c, 3)};
  const auto group = comm::ParallelGroup<Flat>::Create(views, 3, 2);
  comm::TREDUCE(group, views[2], tile, recv, comm::ReduceOp::Sum);
  EXPECT_THAT(c, ElementsAre(111, 222, 333));
  std::vector<float> of_rank[3] = {std::vector<float>(Stage::Numel, 1),
                                   std::vector<float>(Stage::Numel, 10),
                                   std::vector<float>(Stage::Numel, 100)};
  Flat open[3] = {Flat(of_rank[0].data()), Flat(of_rank[1].data()), Flat(of_rank[2].data())};
  const auto unbounded = comm::ParallelGroup<Flat>::Create(open, 3, 2);
  comm::TREDUCE(unbounded, open[2], tile, recv, comm::ReduceOp::Sum);
  EXPECT_THAT(of_rank[2], Each(111));
}

TEST(Comm, a_reduction_without_memory_for_its_sum_fails_the_block) {
  using Wide = GlobalTensor<float, Shape<>, Stride<>>;
  float a[1] = {1}, b[1] = {2};
  const int64_t side = int64_t{1} << 30;
  const Shape<> shape(1, 1, 1, side, side);
  const Stride<> stride(0, 0, 0, side, 1);
  Wide views[2] = {Wide(a, shape, stride), Wide(b, shape, stride)};
  const auto group = comm::ParallelGroup<Wide>::Create(views, 2, 1);
  Stage tile, recv;
  const std::string error = error_of([&] {
    run_blocks(1, [&] { comm::TREDUCE(group, views[1], tile, recv, comm::ReduceOp::Sum); });
  });
  EXPECT_THAT(error, HasSubstr("block 0: no memory of 4611686018427387904 bytes\n  why: "));
  EXPECT_THAT(error, HasSubstr("run fewer blocks"));
  EXPECT_EQ(b[0], 2);
}

template <class T>
void move_and_reduce() {
  using Row = GlobalTensor<T, Shape<1, 1, 1, 2, 3>, Stride<1, 1, 1, 3, 1>>;
  using All = GlobalTensor<T, Shape<1, 1, 1, 4, 3>, Stride<1, 1, 1, 3, 1>>;
  Tile<TileType::Vec, T, 2, 64> tile;
  T a[6], b[6], sum[6] = {}, all[12], copy[6];
  for (int i = 0; i < 6; ++i) {
    a[i] = T(float(i));
    b[i] = T(float(9 - i));
  }
  Row rows[2] = {Row(a), Row(b)};
  const auto group = comm::ParallelGroup<Row>::Create(rows, 2, 0);
  comm::TREDUCE(group, Row(sum), tile, tile, comm::ReduceOp::Sum);
  for (const T value : sum) EXPECT_EQ(float(value), 9);
  comm::TREDUCE(group, Row(sum), tile, tile, comm::ReduceOp::Max);
  EXPECT_EQ(float(sum[5]), 5);
  comm::TGATHER(group, All(all), tile);
  EXPECT_EQ(float(all[7]), 8);
  comm::TPUT<AtomicType::AtomicAdd>(Row(sum), Row(a), tile);
  EXPECT_EQ(float(sum[4]), 9);
  comm::TGET(Row(copy), Row(b), tile);
  EXPECT_EQ(float(copy[2]), 7);
  comm::AsyncSession session;
  comm::TPUT_ASYNC(Row(copy), Row(a), session);
  EXPECT_EQ(float(copy[2]), 2);
  comm::TGET_ASYNC(Row(copy), Row(b), session);
  EXPECT_EQ(float(copy[3]), 6);
  comm::TSCATTER(group, All(all), tile);
  EXPECT_EQ(float(b[0]), 9);
  comm::TBROADCAST(group, Row(copy), tile);
  EXPECT_EQ(float(a[0]), 9);
}

TEST(Comm, every_element_type_moves) {
  move_and_reduce<float>();
  move_and_reduce<half>();
  move_and_reduce<bfloat16_t>();
  move_and_reduce<int32_t>();
  move_and_reduce<uint32_t>();
  move_and_reduce<int16_t>();
  move_and_reduce<uint16_t>();
  move_and_reduce<int8_t>();
  move_and_reduce<uint8_t>();
  move_and_reduce<int64_t>();
  move_and_reduce<uint64_t>();
}

TEST(Comm, signals_order_what_ranks_write) {
  const int ranks = 6, rounds = 20;
  std::vector<int32_t> flags(ranks), data(ranks);
  int errors = 0;
  run_blocks(ranks, [&] {
    const int me = int(get_block_idx()), next = (me + 1) % ranks;
    for (int round = 1; round <= rounds; ++round) {
      if (me > 0) comm::TWAIT(comm::Signal(&flags[me]), round, comm::WaitCmp::EQ);
      data[next] = me > 0 ? data[me] + 1 : round;
      comm::TNOTIFY(comm::Signal(&flags[next]), 1, comm::NotifyOp::AtomicAdd);
      if (me == 0) {
        comm::TWAIT(comm::Signal(&flags[0]), round, comm::WaitCmp::GE);
        errors += data[0] != round + ranks - 1;
      }
    }
  });
  EXPECT_EQ(errors, 0);
}

TEST(Comm, a_matrix_of_signals_holds_when_all_do) {
  std::vector<int32_t> flags(6 * 4);
  const comm::Signal2D<2, 3> part(&flags[1], 6);
  comm::TNOTIFY(part, 4, comm::NotifyOp::Set);
  EXPECT_THAT(flags,
              ElementsAre(0, 4, 4, 4, 0, 0, 0, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_TRUE(comm::TTEST(part, 4, comm::WaitCmp::EQ));
  flags[8] = 5;
  EXPECT_FALSE(comm::TTEST(part, 4, comm::WaitCmp::LE));
  EXPECT_TRUE(comm::TTEST(part, 6, comm::WaitCmp::LT));
  EXPECT_TRUE(comm::TTEST(part, 3, comm::WaitCmp::GT));
  EXPECT_TRUE(comm::TTEST(part, 3, comm::WaitCmp::NE));
  EXPECT_TRUE(comm::TTEST(comm::Signal2D<1, 6>(&flags[12]), 0, comm::WaitCmp::GE));
}

TEST(Comm, a_signal_that_nobody_sends_ends_the_launch) {
  int32_t flag = 0;
  std::string error;
  try {
    run_blocks(2, [&] { comm::TWAIT(comm::Signal(&flag), -3, comm::WaitCmp::LE); });
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, HasSubstr("block 0 waits for a signal <= -3 at "));
  EXPECT_THAT(error, HasSubstr("comm_test.cpp:" + std::to_string(__LINE__ - 5)));
}

TEST(Comm, threads_are_ranks_too) {
  int32_t ping = 0, pong = 0;
  std::thread other([&] {
    for (int i = 1; i <= 50; ++i) {
      comm::TWAIT(comm::Signal(&ping), i, comm::WaitCmp::EQ);
      comm::TNOTIFY(comm::Signal(&pong), i, comm::NotifyOp::Set);
    }
  });
  for (int i = 1; i <= 50; ++i) {
    comm::TNOTIFY(comm::Signal(&ping), i, comm::NotifyOp::Set);
    comm::TWAIT(comm::Signal(&pong), i, comm::WaitCmp::EQ);
  }
  other.join();
}

}  // namespace pto::comm_test
