// SPDX-License-Identifier: Apache-2.0
#include "pto/isa/sync/pipe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "pto/isa/kernel/cores.hpp"
#include "tests/isa_error.hpp"

namespace pto::pipe_test {
using namespace isa;

using testing::HasSubstr;

using Acc = TileAcc<float, 32, 32>;
using Whole = Tile<TileType::Vec, float, 32, 32, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
using Mat =
    Tile<TileType::Mat, float, 32, 32, BLayout::ColMajor, DYNAMIC, DYNAMIC, SLayout::RowMajor>;
constexpr uint32_t kSlot = 32 * 32 * sizeof(float);

float value(int round, int row, int col) { return float(round * 10000 + row * 100 + col); }

template <class T>
void fill(T& tile, int round, int row0 = 0, int col0 = 0) {
  for (int r = 0; r < tile.GetValidRow(); ++r)
    for (int c = 0; c < tile.GetValidCol(); ++c)
      tile.SetElement(r, c, typename T::DType(value(round, row0 + r, col0 + c)));
}

template <class T>
int wrong(const T& tile, int round, int row0 = 0, int col0 = 0) {
  int count = 0;
  for (int r = 0; r < tile.GetValidRow(); ++r)
    for (int c = 0; c < tile.GetValidCol(); ++c)
      count += float(tile.GetElement(r, c)) != value(round, row0 + r, col0 + c);
  return count;
}

template <TileSplitAxis Split>
void cube_to_vector(int odd) {
  using Pipe = TPipe<Split, DIR_C2V, kSlot, 2>;
  std::atomic<int> errors{0};
  const auto cube = [&] {
    Pipe pipe(nullptr, 0, 0);
    for (int i = 0; i < 6; ++i) {
      Acc acc;
      fill(acc, i);
      TPUSH<Pipe, Acc, Split>(pipe, acc);
    }
  };
  const auto vector = [&] {
    Pipe pipe(nullptr, 0, 0);
    const int lane = int(get_subblockid()), rest = lane == 0 ? odd : -odd;
    const bool rows = pipes::splits_rows(Split);
    for (int i = 0; i < 6; ++i) {
      Whole half(rows ? 16 + rest : 32, rows ? 32 : 16 + rest);
      TPOP<Pipe, Whole, Split>(pipe, half);
      const int from = lane == 0 ? 0 : 16 + odd;
      errors += wrong(half, i, rows ? from : 0, rows ? 0 : from);
      TFREE<Pipe, Split>(pipe);
    }
  };
  run_cores(3, 2, cube, vector);
  EXPECT_EQ(errors.load(), 0);
}

TEST(Pipe, an_accumulator_is_split_between_the_vector_cores) {
  cube_to_vector<TILE_UP_DOWN>(0);
  cube_to_vector<TILE_LEFT_RIGHT>(0);
  cube_to_vector<TILE_UP_DOWN_ODD>(1);
}

template <TileSplitAxis Split>
void vector_to_cube(int odd) {
  using Pipe = TPipe<Split + 8, DIR_V2C, kSlot, 2>;
  std::atomic<int> errors{0};
  const auto vector = [&] {
    Pipe pipe(nullptr, 0, 0);
    const int lane = int(get_subblockid()), rest = lane == 0 ? odd : 0;
    const bool rows = pipes::splits_rows(Split);
    for (int i = 0; i < 6; ++i) {
      Whole half(rows ? 15 + rest : 32, rows ? 32 : 15 + rest);
      const int from = lane == 0 ? 0 : 15 + odd;
      fill(half, i, rows ? from : 0, rows ? 0 : from);
      if (i % 2)
        TPUSH<Pipe, Whole, Split>(pipe, half);
      else
        TPUSH<Pipe, Whole, Split>(pipe, half, lane);
    }
  };
  const auto cube = [&] {
    Pipe pipe(nullptr, 0, 0);
    const bool rows = pipes::splits_rows(Split);
    for (int i = 0; i < 6; ++i) {
      Mat whole(rows ? 30 + odd : 32, rows ? 32 : 30 + odd);
      TPOP<Pipe, Mat, Split>(pipe, whole);
      errors += wrong(whole, i);
      TFREE<Pipe, Split>(pipe);
    }
  };
  run_cores(2, 2, cube, vector);
  EXPECT_EQ(errors.load(), 0);
}

TEST(Pipe, the_vector_cores_push_halves_of_a_matrix) {
  vector_to_cube<TILE_UP_DOWN>(0);
  vector_to_cube<TILE_LEFT_RIGHT>(0);
  vector_to_cube<TILE_LEFT_RIGHT_ODD>(1);
}

TEST(Pipe, not_split_the_first_vector_core_alone_takes_part) {
  using Pipe = TPipe<20, DIR_BOTH, kSlot, 2>;
  std::atomic<int> errors{0};
  const auto cube = [&] {
    Pipe pipe(nullptr, 0, 0);
    Acc acc;
    fill(acc, 1);
    TPUSH(acc, pipe);
    Mat back(32, 32);
    TPOP<Pipe, Mat, TILE_NO_SPLIT>(pipe, back);
    TFREE<Pipe, TILE_NO_SPLIT>(pipe);
    errors += wrong(back, 2);
  };
  const auto vector = [&] {
    Pipe pipe(nullptr, 0, 0);
    Whole got(32, 32), sent(32, 32);
    fill(got, 7);
    fill(sent, 2);
    TPOP(got, pipe);
    TFREE(pipe);
    TPUSH<Pipe, Whole, TILE_NO_SPLIT>(pipe, sent);
    if (get_subblockid() == 0) errors += wrong(got, 1);
    for (int i = 0; get_subblockid() == 1 && i < Whole::Numel; ++i) errors += got.data()[i] != 0;
  };
  run_cores(2, 2, cube, vector);
  EXPECT_EQ(errors.load(), 0);
}

TEST(Pipe, both_vector_cores_pop_the_whole_tile_where_the_pipe_says_so) {
  using Pipe = TPipe<21, DIR_C2V, kSlot, 1, 2, true>;
  std::atomic<int> errors{0}, popped{0};
  run_cores(
      1, 2,
      [&] {
        Pipe pipe(nullptr, 0, 0);
        for (int i = 0; i < 4; ++i) {
          Acc acc;
          fill(acc, i);
          TPUSH<Pipe, Acc, TILE_NO_SPLIT>(pipe, acc);
          errors += popped.load() < 2 * (i - 1);
        }
      },
      [&] {
        Pipe pipe(nullptr, 0, 0);
        for (int i = 0; i < 4; ++i) {
          Whole got(32, 32);
          TPOP<Pipe, Whole, TILE_NO_SPLIT>(pipe, got);
          errors += wrong(got, i);
          ++popped;
          TFREE<Pipe, TILE_NO_SPLIT>(pipe);
        }
      });
  EXPECT_EQ(errors.load(), 0);
}

TEST(Pipe, views_use_the_slots_themselves) {
  using Pipe = TPipe<22, DIR_C2V, kSlot, 2>;
  using View = GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1, 1, 1, 32, 1>>;
  std::vector<float> slots(2 * 32 * 32);
  std::atomic<int> errors{0};
  run_cores(
      1, 1,
      [&] {
        Pipe pipe(slots.data(), 0, 0);
        for (int i = 0; i < 5; ++i) {
          View view(nullptr);
          TALLOC<Pipe, View, TILE_NO_SPLIT>(pipe, view);
          errors += view.data() != slots.data() + i % 2 * 1024;
          view.data()[5] = float(i);
          TPUSH<Pipe, View, TILE_NO_SPLIT>(pipe, view);
        }
      },
      [&] {
        Pipe pipe(slots.data(), 0, 0);
        for (int i = 0; i < 5; ++i) {
          View view(nullptr);
          TPOP<Pipe, View, TILE_NO_SPLIT>(pipe, view);
          errors += view.data()[5] != float(i);
          TFREE<Pipe, View, TILE_NO_SPLIT>(pipe, view);
        }
      });
  EXPECT_EQ(errors.load(), 0);
}

TEST(Pipe, views_pop_what_tiles_pushed_and_tiles_what_views_pushed) {
  using View = GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1, 1, 1, 32, 1>>;
  using ToView = TPipe<28, DIR_C2V, kSlot, 2>;
  std::vector<float> slots(2 * 32 * 32);
  std::atomic<int> errors{0};
  run_cores(
      1, 1,
      [&] {
        ToView pipe(slots.data(), 0, 0);
        for (int i = 0; i < 5; ++i) {
          Acc acc;
          fill(acc, i);
          TPUSH<ToView, Acc, TILE_NO_SPLIT>(pipe, acc);
        }
      },
      [&] {
        ToView pipe(slots.data(), 0, 0);
        for (int i = 0; i < 5; ++i) {
          View view(nullptr);
          TPOP<ToView, View, TILE_NO_SPLIT>(pipe, view);
          for (int at = 0; at < 32 * 32; ++at)
            errors += view.data()[at] != value(i, at / 32, at % 32);
          TFREE<ToView, View, TILE_NO_SPLIT>(pipe, view);
        }
      });
  EXPECT_EQ(errors.load(), 0);
  using ToTile = TPipe<29, DIR_C2V, kSlot, 2>;
  run_cores(
      1, 2,
      [&] {
        ToTile pipe(slots.data(), 0, 0);
        for (int i = 0; i < 5; ++i) {
          View view(nullptr);
          TALLOC<ToTile, View, TILE_UP_DOWN>(pipe, view);
          for (int at = 0; at < 32 * 32; ++at) view.data()[at] = value(i, at / 32, at % 32);
          TPUSH<ToTile, View, TILE_UP_DOWN>(pipe, view);
        }
      },
      [&] {
        ToTile pipe(slots.data(), 0, 0);
        for (int i = 0; i < 5; ++i) {
          Whole half(16, 32);
          TPOP<ToTile, Whole, TILE_UP_DOWN>(pipe, half);
          errors += wrong(half, i, 16 * int(get_subblockid()));
        }
      });
  EXPECT_EQ(errors.load(), 0);
}

// Kernels reach what was popped by the address that it has on a chip.
TEST(Pipe, with_slots_in_memory_a_pop_copies_to_the_consumers_buffer_and_frees) {
  using Pipe = TPipe<24, DIR_C2V, kSlot, 3, 2>;
  using Part = Tile<TileType::Vec, float, 16, 32>;
  constexpr uint32_t kBuffer = 0x4000;
  std::vector<float> slots(3 * 32 * 32);
  std::atomic<int> errors{0};
  run_cores(
      1, 2,
      [&] {
        Pipe pipe(slots.data(), kBuffer, 0);
        for (int i = 0; i < 6; ++i) {
          Acc acc;
          fill(acc, i);
          errors += pipe.prod.getTileId() != i;
          TPUSH<Pipe, Acc, TILE_UP_DOWN>(pipe, acc);
        }
      },
      [&] {
        Pipe pipe(slots.data(), kBuffer, 0);
        Part popped, same, placed;
        TASSIGN(placed, 0x0);
        for (int i = 0; i < 6; ++i) {
          const int lane = int(get_subblockid()), slot = pipe.cons.getTileId();
          errors += slot != i;
          Part& to = i % 3 == 2 ? placed : popped;
          TPOP<Pipe, Part, TILE_UP_DOWN>(pipe, to);
          errors += wrong(to, i, 16 * lane);
          TASSIGN(same, i % 3 == 2 ? 0x0 : kBuffer + slot % 2 * kSlot);
          errors += wrong(same, i, 16 * lane) + (same.data() != to.data());
          if (i % 2 == 0) TFREE<Pipe, TILE_UP_DOWN>(pipe);  // the pop has freed it
        }
        pipe.cons.setTileId(7, 1);
        errors += pipe.cons.getTileId() + pipe.cons.getSubTileId() != 8;
      });
  EXPECT_EQ(errors.load(), 0);
}

TEST(Pipe, accumulators_are_quantised_on_their_way) {
  using Pipe = TPipe<23, DIR_C2V, kSlot, 2>;
  using Bytes = Tile<TileType::Vec, int8_t, 32, 32>;
  using Entries = Tile<TileType::Scaling, uint64_t, 1, 32>;
  using Scalar = FixpipeParams<LayoutMode_t::NZ2ND, QF322B8_PRE, ReluPreMode::NormalRelu>;
  using Columns = FixpipeParams<LayoutMode_t::NZ2ND, VQF322B8_PRE>;
  Acc acc;
  Bytes bytes;
  Entries entries;
  for (int c = 0; c < 32; ++c) {
    for (int r = 0; r < 32; ++r) acc.SetElement(r, c, float(r - 16));
    const float scale = c % 2 ? 1 : 2;
    uint32_t bits;
    memcpy(&bits, &scale, 4);
    entries.SetElement(0, c, bits | uint64_t(1) << 46);
  }
  Pipe pipe(nullptr, 0, 0);
  SET_QUANT_SCALAR<int8_t>(3);
  TPUSH<Pipe, Acc, Scalar>(pipe, acc);
  SET_QUANT_VECTOR(entries);
  TPUSH<Pipe, Acc, Columns>(pipe, acc);
  TPOP(bytes, pipe);
  EXPECT_EQ(bytes.GetElement(10, 4), 0);
  EXPECT_EQ(bytes.GetElement(20, 4), 12);
  TFREE(pipe);
  TPOP(bytes, pipe);
  EXPECT_EQ(bytes.GetElement(10, 4), -12);
  EXPECT_EQ(bytes.GetElement(10, 5), -6);
  TFREE(pipe);
}

template <class Pipe>
void pop_one() {
  Pipe pipe(nullptr, 0, 0);
  Whole got(32, 32);
  TPOP(got, pipe);
}
constexpr int kLineOfPop = __LINE__ - 2;

template <class Pipe, int Times>
void push_some() {
  Pipe pipe(nullptr, 0, 0);
  Acc acc;
  fill(acc, 0);
  for (int i = 0; i < Times; ++i) TPUSH(acc, pipe);
}

// One thread is all cores: it frees in the order of its pops, whatever their direction.
TEST(Pipe, slots_of_both_directions_are_freed_in_the_order_of_their_pops) {
  using Pipe = TPipe<40, Direction::DIR_BOTH, 16 * 16 * sizeof(float), 2>;
  using Acc = TileAcc<float, 16, 16>;
  using Vector = Tile<TileType::Vec, float, 16, 16>;
  using Matrix = Tile<TileType::Mat, float, 16, 16>;
  Pipe::reset_for_cpu_sim();
  Pipe pipe(nullptr, 0, 0);
  Acc acc;
  Vector up, down;
  Matrix back;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < Acc::Numel; ++k) acc.data()[k] = float(10 * round + i);
      for (int k = 0; k < Vector::Numel; ++k) up.data()[k] = float(100 + 10 * round + i);
      TPUSH<Pipe, Acc, TILE_NO_SPLIT>(pipe, acc);
      TPUSH<Pipe, Vector, TILE_NO_SPLIT>(pipe, up);
    }
    for (int i = 0; i < 2; ++i) {
      const bool is_down_first = (round + i) % 2 == 0;
      if (is_down_first) TPOP<Pipe, Vector, TILE_NO_SPLIT>(pipe, down);
      TPOP<Pipe, Matrix, TILE_NO_SPLIT>(pipe, back);
      if (!is_down_first) TPOP<Pipe, Vector, TILE_NO_SPLIT>(pipe, down);
      EXPECT_EQ(down.GetElement(15, 3), float(10 * round + i));
      EXPECT_EQ(back.GetElement(3, 15), float(100 + 10 * round + i));
    }
    for (int i = 0; i < 4; ++i) TFREE<Pipe, TILE_NO_SPLIT>(pipe);
  }
}

TEST(Pipe, misuse_ends_with_what_happened_and_where) {
  using Pipe = TPipe<24, DIR_C2V, kSlot, 2>;
  using Small = TPipe<25, DIR_C2V, 100, 2>;
  const auto nothing = [] {};
  const std::string pop = error_of([&] { run_cores(1, 1, nothing, pop_one<Pipe>); });
  EXPECT_THAT(pop, HasSubstr("deadlock: block 0 (vector 0) waits in TPOP for a push: 0 were made "
                             "and popped, at "));
  EXPECT_THAT(pop, HasSubstr("pipe_test.cpp:" + std::to_string(kLineOfPop) + ";"));
  EXPECT_THAT(error_of([&] { run_cores(1, 1, push_some<Pipe, 3>, nothing); }),
              HasSubstr("waits in TPUSH for a free slot: 2 are pushed and not freed,"));
  EXPECT_THAT(error_of([&] { run_cores(1, 1, push_some<Pipe, 1>, nothing); }),
              HasSubstr("block 0 pushed 1 times into a pipe and popped 0 times"));
  EXPECT_THAT(error_of([&] { run_cores(1, 1, push_some<Small, 1>, nothing); }),
              HasSubstr("block 0 (cube): TPUSH: the tile is larger than a slot at "));
  using Split = TPipe<27, DIR_C2V, kSlot, 2>;
  const auto push_eight_rows = [] {
    Split pipe(nullptr, 0, 0);
    TileAcc<float, 32, 32, DYNAMIC, DYNAMIC> acc(8, 32);
    TPUSH<Split, decltype(acc), TILE_UP_DOWN>(pipe, acc);
  };
  const auto pop_sixteen = [] {
    Split pipe(nullptr, 0, 0);
    Whole half(16, 32);
    TPOP<Split, Whole, TILE_UP_DOWN>(pipe, half);
  };
  EXPECT_THAT(error_of([&] { run_cores(1, 2, push_eight_rows, pop_sixteen); }),
              HasSubstr("TPOP: the tile is larger than the pushed one at "));
}

TEST(Pipe, threads_outside_launches_share_a_queue) {
  using Pipe = TPipe<26, DIR_V2C, kSlot, 2>;
  Pipe::reset_for_cpu_sim();
  Pipe pipe(nullptr, 0, 0);
  std::thread producer([&pipe] {
    for (int i = 0; i < 10; ++i) {
      Whole tile(32, 32);
      fill(tile, i);
      TPUSH(tile, pipe);
    }
  });
  int errors = 0;
  for (int i = 0; i < 10; ++i) {
    Mat tile(32, 32);
    TPOP(tile, pipe);
    TFREE(pipe);
    errors += wrong(tile, i);
  }
  producer.join();
  EXPECT_EQ(errors, 0);
}

}  // namespace pto::pipe_test
